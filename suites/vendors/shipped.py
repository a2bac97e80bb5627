"""Calls kernels for Hopper GPUs: those that JAX ships as examples of Pallas on Mosaic GPU, and ours in CuTe DSL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, cast

import jax
import jax.numpy as jnp

from suites.vendors.calls import VendorCall

_WHERE = "jax.experimental.pallas.ops.gpu"
_WGMMA = "9.0"
"""The compute capability that has the instructions of these kernels."""


class ShippedKernel(VendorCall):
    """A kernel of JAX's own. JAX loops over batches, since the kernel was written for none."""

    def build(self, inputs: Sequence[Any], outs: Sequence[Any]) -> Callable[..., Any]:
        """The function that was made, compiled."""
        call = super().build(inputs, outs)
        batched: Callable[..., Any] = jax.custom_batching.sequential_vmap(lambda *arrays: call(*arrays))
        return batched

    def unsupported(self, platform: str) -> str | None:
        """Why the module does not import, or the GPU lacks the instructions."""
        if find_spec("absl") is None:
            return f"{_WHERE} imports absl: python -m pip install absl-py"
        return _without_wgmma()


class CuteKernel(VendorCall):
    """A kernel of ours in CuTe DSL, which the bridge calls as a function of TVM-FFI."""

    def unsupported(self, platform: str) -> str | None:
        """Why a GPU lacks the instructions."""
        return _without_wgmma()


@dataclass(frozen=True)
class Later:
    """A function of a module that is imported when it is called, because the module needs CuTe DSL."""

    module: str
    name: str

    @property
    def func(self) -> Callable[..., Any]:
        """The function."""
        found: Callable[..., Any] = getattr(import_module(self.module), self.name)
        return found

    def __call__(self, inputs: Sequence[Any], outs: Sequence[Any]) -> Callable[..., Any]:
        """Calls it."""
        return cast("Callable[..., Any]", self.func(inputs, outs))


def _without_wgmma() -> str | None:
    others = {each.compute_capability for each in jax.devices() if each.platform == "gpu"} - {_WGMMA}
    return f"its instructions are those of compute capability {_WGMMA}, not {min(others)}" if others else None


def shipped(module: str) -> Any:
    """A module of such kernels, by its name."""
    return import_module(f"{_WHERE}.{module}")


def padded(array: jax.Array, *multiples: int) -> jax.Array:
    """The array with zeros after it, so that each dimension is a multiple, and not empty."""
    sizes = zip(array.shape, multiples, strict=True)
    return jnp.pad(array, [(0, max(-(-size // multiple), 1) * multiple - size) for size, multiple in sizes])
