"""Describes the launch of a Warp kernel as plain data. Needs no Warp."""

import msgspec


class WarpArgument(msgspec.Struct, frozen=True):
    """One argument of a launch: an array in a buffer of the call, or a value.

    Attributes:
        dtype: Name of the scalar dtype.
        inner: Shape of a vector or matrix, ``()`` for a scalar.
        shape: Shape of the array in elements; None for a value.
        buffer: Index of the array's buffer: inputs of the call, then outputs.
        adjoint: Index of the buffer with its adjoint, in a backward launch; None if it has none.
        value: The value's memory.
    """

    dtype: str
    inner: tuple[int, ...]
    shape: tuple[int, ...] | None = None
    buffer: int = 0
    adjoint: int | None = None
    value: bytes = b""


class WarpLaunch(msgspec.Struct, frozen=True):
    """One launch without the addresses of its arrays: the options of a Warp kernel.

    Attributes:
        dims: Threads along each dimension.
        block_dim: Threads of a block, None for Warp's default on the device.
        backward: Launch the adjoint.
        arguments: The arguments, in the order of the kernel's parameters.
    """

    dims: tuple[int, ...]
    block_dim: int | None
    backward: bool
    arguments: tuple[WarpArgument, ...]
