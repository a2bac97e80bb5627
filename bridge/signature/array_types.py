"""Describes the types of the arrays of a kernel call, to compilers and to other processes."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

import jax
import msgspec
from jax.export import is_symbolic_dim

from bridge.errors import SignatureError


class ArrayType(msgspec.Struct, frozen=True, array_like=True):
    """The type of one array.

    Attributes:
        dtype: Name of the dtype.
        shape: Extents, without batch dimensions. They are None where a kernel is compiled for ranks only.
        writable: Whether the kernel may write to the array.
    """

    dtype: str
    shape: tuple[int | None, ...]
    writable: bool

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def item_bytes(self) -> int:
        """Bytes of an element."""
        return jax.numpy.dtype(self.dtype).itemsize

    @property
    def extents(self) -> tuple[int, ...]:
        """The shape of an array whose extents are known."""
        known = tuple(extent for extent in self.shape if extent is not None)
        assert len(known) == self.rank, f"the extents of {self} are not known"
        return known


class Signature(msgspec.Struct, frozen=True):
    """The types of the arrays of one call. Hashable, and the same text in every process.

    Attributes:
        inputs: The types of the inputs.
        outputs: The types of the outputs.
    """

    inputs: tuple[ArrayType, ...]
    outputs: tuple[ArrayType, ...]

    @classmethod
    def of(
        cls, name: str, inputs: Sequence[Any], outputs: Sequence[Any], writable: Container[int], *, with_extents: bool
    ) -> Signature:
        """The signature of a call.

        Args:
            name: The kernel, for errors.
            inputs: Anything with shape and dtype, for each input.
            outputs: The same for each output.
            writable: Indices of the inputs that the kernel may write to.
            with_extents: Whether the kernel is compiled for extents, and not for ranks only.

        Raises:
            SignatureError: An extent is symbolic, but the kernel is compiled for extents.
        """
        if with_extents:
            check_known_shapes([*inputs, *outputs], name)

        def array_type(array: Any, writable: bool) -> ArrayType:
            shape = tuple(array.shape) if with_extents else (None,) * len(array.shape)
            return ArrayType(array.dtype.name, shape, writable)

        return cls(
            tuple(array_type(array, index in writable) for index, array in enumerate(inputs)),
            tuple(array_type(array, True) for array in outputs),
        )

    @property
    def arrays(self) -> tuple[ArrayType, ...]:
        """The types of inputs and outputs, in the order in which kernels take them."""
        return self.inputs + self.outputs

    @property
    def input_sizes(self) -> tuple[tuple[int, int], ...]:
        """Rank and bytes of an element of each input, as the plans of :mod:`bridge.ffi.plans` take them."""
        return tuple((array.rank, array.item_bytes) for array in self.inputs)

    @property
    def output_sizes(self) -> tuple[tuple[int, int], ...]:
        """The same for each output."""
        return tuple((array.rank, array.item_bytes) for array in self.outputs)


def check_known_shapes(arrays: Sequence[Any], name: str) -> None:
    """Raises SignatureError if an extent is symbolic, for kernels whose launch is compiled for known extents."""
    for array in arrays:
        if any(is_symbolic_dim(extent) for extent in array.shape):
            raise SignatureError(
                f"{name}: {array.dtype}{list(array.shape)} has a symbolic shape, but its launch is compiled for known "
                "extents. Export one program for each shape."
            )
