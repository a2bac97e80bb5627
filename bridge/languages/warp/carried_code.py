"""Loads object code of a Warp kernel from an exported program, without Warp."""

from __future__ import annotations

import msgspec

from bridge.ffi.native.object_code import LoadedObject, require_processor, require_symbols, taken_by
from bridge.ffi.plans.host import HostPlan
from bridge.languages.warp import operations


class WarpObject(msgspec.Struct, frozen=True):
    """Object code, and the launch that it is for.

    Attributes:
        content: An object file; empty if no thread runs.
        symbol: The kernel's name in it.
        triple: The system and processor that it is for.
        features: The features that the processor needs.
        block: As of an :class:`~bridge.languages.warp.operations.Operation`.
        patches: The same.
        buffers: How many arrays the call has.
        on_tiles: Whether the code works on tiles.
    """

    content: bytes
    symbol: str
    triple: str
    features: tuple[str, ...]
    block: tuple[int, ...]
    patches: tuple[tuple[int, int, int], ...]
    buffers: int
    on_tiles: bool


def plan_of(name: str, content: bytes) -> HostPlan:
    """The plan that runs object code of another process.

    Raises:
        BridgeError: It is for another processor, or calls what this process does not have.
    """
    code = msgspec.msgpack.decode(content, type=WarpObject)
    require_processor(name, code.triple, code.features)
    made, loaded = [], None
    if code.content:
        require_symbols(name, taken_by(code.content))
        loaded = LoadedObject(code.content, code.symbol)
        made = [operations.Operation(name, loaded.address, code.block, code.patches)]
    return operations.plan_of(made, range(code.buffers), 0, code.on_tiles, loaded)
