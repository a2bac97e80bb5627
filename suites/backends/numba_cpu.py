"""Adds the backends ``numba`` and ``numba_parallel``: Numba's CPU kernels on one thread and on several.

It also exports the building blocks of :mod:`suites.backends.numba_cpu_blocks` for the files of operators.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from numba.core.registry import CPUDispatcher
from numba.np.numpy_support import as_dtype

from bridge import numba_kernel
from suites.backends.backend import Backend, register_backend
from suites.backends.kernel import DeclaredDtypes, Kernel
from suites.backends.numba_bounds import with_bounds_checks
from suites.backends.numba_cpu_blocks import (
    ONE_THREAD_BELOW,
    block_count,
    block_dot,
    block_exp,
    block_largest,
    block_squares,
    block_sum,
    blocked_dot,
    blocked_squares,
    blocked_sum,
    copy_to,
    rows_of_part,
)
from suites.numerics.blocked_sums import BLOCK

__all__ = [
    "BLOCK",
    "NUMBA",
    "NUMBA_PARALLEL",
    "ONE_THREAD_BELOW",
    "NumbaKernel",
    "block_count",
    "block_dot",
    "block_exp",
    "block_largest",
    "block_squares",
    "block_sum",
    "blocked_dot",
    "blocked_squares",
    "blocked_sum",
    "copy_to",
    "rows_of_part",
]


@dataclass(frozen=True)
class NumbaKernel(Kernel):
    """A function decorated with ``numba.njit`` that takes the inputs, then the outputs."""

    dispatcher: Any

    def build(self, inputs: Sequence[Any], outs: Sequence[Any]) -> Callable[..., Any]:
        """The callable of :func:`bridge.numba_kernel`."""
        return numba_kernel(self.dispatcher, outs)

    def with_bounds_checks(self) -> NumbaKernel:
        """The same kernel, and the functions that it calls, with ``boundscheck=True``."""
        return NumbaKernel(with_bounds_checks(self.dispatcher))

    @property
    def parallel(self) -> bool:
        """Whether it is decorated with ``parallel=True``."""
        return bool(self.dispatcher.targetoptions.get("parallel"))

    def declared_dtypes(self) -> DeclaredDtypes | None:
        """The dtypes of its explicit signatures; None if Numba compiles it for any arguments."""
        if self.dispatcher._can_compile:
            return None
        return [tuple(map(_dtype, signature.args)) for signature in self.dispatcher.nopython_signatures]


def _dtype(given: Any) -> str | None:
    """The dtype of a Numba type; None if it is no array, or an array of a type that NumPy does not have."""
    try:
        return str(as_dtype(given.dtype).name)
    except (AttributeError, NotImplementedError):
        return None


def _accept(kernel: Any) -> Kernel | None:
    if isinstance(kernel, NumbaKernel):
        return kernel
    return NumbaKernel(kernel) if isinstance(kernel, CPUDispatcher) else None


_NO_HALF = {name: f"Numba's CPU target has no {name}" for name in ("float16", "bfloat16")}

NUMBA = register_backend(
    Backend(
        id="numba",
        targets={"cpu": "bridge_cpu"},
        accept=_accept,
        expected="a function decorated with numba.njit",
        cure="Decorate it with numba.njit.",
        missing_dtypes=_NO_HALF,
    )
)
NUMBA_PARALLEL = register_backend(
    Backend(
        id="numba_parallel",
        targets={"cpu": "bridge_cpu"},
        accept=_accept,
        expected="a function decorated with numba.njit(parallel=True)",
        cure="Decorate it with numba.njit(parallel=True).",
        language="numba",
        missing_dtypes=_NO_HALF,
        serial_twin=NUMBA,
    )
)
