"""Defines :class:`Case`: one operator, backend, dtype and size on one platform, with the inputs of its test."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from reports import Cell
from reports.records.cell import short_dtype
from suites.backends import Backend
from suites.cells import repeated_inputs
from suites.declare.error_case import ErrorCase
from suites.declare.operator import Operator
from suites.numerics.arrays import Array, Inputs
from suites.numerics.precision import precision

SEED = 20_260
"""Seed of all sample inputs."""


@dataclass(frozen=True)
class Case:
    """One kernel on sample inputs, to be checked or timed. A record names it by its :attr:`cell`.

    Attributes:
        operator: The operator.
        backend: The backend whose kernel runs; :attr:`BACKENDS["jnp"]` is the reference.
        dtype: Name of the dtype, such as ``float32``.
        size: Nominal size of the sample inputs; 0 where ``variant`` names the inputs.
        platform: ``cpu`` or ``cuda``.
        variant: Name of an edge case, error case or batch layout; None for an ordinary sample.
        cache: On a GPU, the state of its cache before a timed call: ``hot`` or ``cold``; None elsewhere.
    """

    operator: Operator
    backend: Backend
    dtype: str
    size: int
    platform: str
    variant: str | None = None
    cache: str | None = None

    @property
    def cell(self) -> Cell:
        """Identifies the case in a record."""
        return Cell(
            operator=self.operator.name,
            operator_version=self.operator.version,
            backend=self.backend.id,
            platform=self.platform,  # type: ignore[arg-type]
            dtype=self.dtype,
            size=self.size,
            params={"cache": self.cache} if self.cache else {},
        )

    @property
    def id(self) -> str:
        """Such as ``lif_step-numba-f32-4096-cpu``, or ``max-numba-f32-negative_nan-cpu``."""
        what = [str(self.size)] if self.size else []
        what += [self.variant] if self.variant else []
        how = [self.cache] if self.cache else []
        return "-".join([self.operator.name, self.backend.id, short_dtype(self.dtype), *what, self.platform, *how])

    @property
    def kernel(self) -> tuple[Operator, Backend]:
        """The operator and the backend."""
        return self.operator, self.backend

    @property
    def device(self) -> jax.Device:
        """The first device of the platform."""
        return jax.devices(self.platform)[0]

    @property
    def in_first_dtype(self) -> bool:
        """Whether the operator lists this dtype first."""
        return bool(self.dtype == self.operator.dtypes[0])

    @property
    def has_gradient(self) -> bool:
        """Whether the operator declares a derivative that this kernel has in this dtype."""
        return self.operator.has_gradient(self.backend, self.dtype)

    @property
    def error(self) -> ErrorCase:
        """The error case that the variant names."""
        return next(case for case in self.operator.errors if case.name == self.variant)

    def inputs(self) -> Inputs:
        """Returns the sample inputs, or the inputs of the edge case. They are shared and read-only."""
        if self.size:
            return sample(self.operator, self.dtype, self.size, SEED)
        return edges_of(self.operator, self.dtype)[str(self.variant)]

    def samples(self, count: int = 3, size: int | None = None) -> list[Inputs]:
        """Returns several samples of one size, by default the size of the case. Three make a batch."""
        return [self.operator.sample(self.dtype, size or self.size, SEED + seed) for seed in range(count)]

    def build(self, inputs: Inputs) -> Callable[..., Any]:
        """Returns the callable of the backend for inputs of these shapes and dtypes."""
        return self.operator.build(self.backend, inputs)

    @contextlib.contextmanager
    def placed(self) -> Iterator[None]:
        """Makes JAX compute on the device of the case, in the precision of its dtype."""
        with precision(self.dtype), jax.default_device(self.device):
            yield


def stacked(elements: Sequence[Sequence[Array]]) -> list[Array]:
    """Returns the arrays of several elements, stacked along a first axis: the operands of a batch."""
    return [np.stack(column) for column in zip(*elements, strict=True)]


@functools.lru_cache(maxsize=4)
def sample(operator: Operator, dtype: str, size: int, seed: int) -> Inputs:
    """Returns sample inputs, made once for all backends and read-only."""
    inputs = repeated_inputs.sample(operator, dtype, size, seed)
    _protect(inputs)
    return inputs


@functools.lru_cache(maxsize=256)
def edges_of(operator: Operator, dtype: str) -> Mapping[str, Inputs]:
    """Returns the edge cases of an operator, made once for all backends and read-only."""
    cases = operator.edges(dtype)
    for inputs in cases.values():
        _protect(inputs)
    return cases


def _protect(inputs: Inputs) -> None:
    for array in inputs:
        array.flags.writeable = False


def input_types(inputs: Inputs) -> tuple[list[list[int]], list[str]]:
    """Returns the shapes and the names of the dtypes of inputs, as a record holds them."""
    return [list(array.shape) for array in inputs], [np.dtype(array.dtype).name for array in inputs]
