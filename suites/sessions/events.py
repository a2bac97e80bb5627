"""Carries messages between a command that conducts timing processes and these processes, through pipes.

A timing process runs kernels, which may bring it down. The command then knows from the last message, and from
memory that both share (:class:`SharedPlace`), which cell it was. Messages are MessagePack behind their length: JSON has
no NaN.
"""

from __future__ import annotations

import mmap
import os
import struct
import tempfile
from collections.abc import Iterator
from typing import Any

import msgspec

from reports import Cell, CellResult, Run

VARIABLE = "KERNEL_BRIDGE_EVENTS"
"""The environment variable with three file descriptors: for messages up, for orders down, and of the shared place."""

PROTOCOL = 1
"""Raised when messages or orders change: processes of two revisions only work together if it is equal."""


class Busy(msgspec.Struct, frozen=True, tag=True):
    """The process does something other than timing a cell; ``what`` is a short text for a person."""

    what: str


class Opened(msgspec.Struct, frozen=True, tag=True):
    """The process has collected its cells.

    Attributes:
        protocol: The :data:`PROTOCOL` of the process.
        run: The header of a run that would start now.
        cells: The cells that can be timed, in their order.
        skipped: The cells that cannot run here, as records.
    """

    protocol: int
    run: Run
    cells: list[Cell]
    skipped: list[CellResult]


class Started(msgspec.Struct, frozen=True, tag=True):
    """The process begins to prepare a cell."""

    cell: Cell


class Prepared(msgspec.Struct, frozen=True, tag=True):
    """A cell is compiled, and checked if it was to be; or it failed."""

    result: CellResult


class Ready(msgspec.Struct, frozen=True, tag=True):
    """The process has prepared all cells that it was told to."""


class TurnEnded(msgspec.Struct, frozen=True, tag=True):
    """A turn has ended; the results hold all samples of this process so far."""

    results: list[CellResult]


class Refused(msgspec.Struct, frozen=True, tag=True):
    """The session cannot run, for a reason that the user can change."""

    reason: str


class Prepare(msgspec.Struct, frozen=True, tag=True):
    """An order: compile these cells, and check those that are ``judged``."""

    cells: list[Cell]
    judged: list[Cell]


class Turn(msgspec.Struct, frozen=True, tag=True):
    """An order: time the cells of a contest.

    Attributes:
        cells: The cells.
        seconds: How long the rounds of a cell should take.
        last: Whether it is the last turn of the contest in this process.
        measures: In the last turn: whether this process also measures roofs and memory.
    """

    cells: list[Cell]
    seconds: float
    last: bool
    measures: bool


class Finish(msgspec.Struct, frozen=True, tag=True):
    """An order: there are no more turns."""


Event = Busy | Opened | Started | Prepared | Ready | TurnEnded | Refused
Order = Prepare | Turn | Finish

_LENGTH = struct.Struct("<I")
_EVENTS = msgspec.msgpack.Decoder(Event)
_ORDERS = msgspec.msgpack.Decoder(Order)


class SharedPlace:
    """A byte in memory that two processes share: the place of the running cell in the list of the last order.

    Writing it costs no system call, so it disturbs nothing that is timed.
    """

    NONE = 0xFFFF

    def __init__(self, descriptor: int) -> None:
        self._memory = mmap.mmap(descriptor, 2)

    @classmethod
    def make(cls) -> tuple[SharedPlace, int]:
        """Returns a new one, and the file descriptor by which another process finds it."""
        with tempfile.TemporaryFile() as file:
            file.truncate(2)
            descriptor = os.dup(file.fileno())
        place = cls(descriptor)
        place.set(cls.NONE)
        return place, descriptor

    def set(self, number: int) -> None:
        """Writes the number."""
        self._memory[:] = number.to_bytes(2, "little")

    def get(self) -> int:
        """Reads it."""
        return int.from_bytes(self._memory[:], "little")


class Conductor:
    """The command, as a timing process sees it."""

    def __init__(self, up: int, down: int, place: SharedPlace) -> None:
        self._up, self._down = up, down
        self.place = place

    @classmethod
    def of_environment(cls) -> Conductor | None:
        """Returns the command that started this process; None in a session that somebody started with pytest."""
        given = os.environ.get(VARIABLE)
        if given is None:
            return None
        up, down, place = map(int, given.split(","))
        return cls(up, down, SharedPlace(place))

    def send(self, event: Event) -> None:
        """Sends a message."""
        write(self._up, event)

    def orders(self) -> Iterator[Prepare | Turn]:
        """Yields the orders, until the last one or the end of the command."""
        while True:
            data = _message(self._down)
            if data is None:
                return
            order: Order = _ORDERS.decode(data)
            if isinstance(order, Finish):
                return
            yield order


def write(descriptor: int, message: Any) -> None:
    """Writes a message or an order to a pipe."""
    data = msgspec.msgpack.encode(message, enc_hook=_plain)
    rest = memoryview(_LENGTH.pack(len(data)) + data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def event(descriptor: int) -> Event | None:
    """Returns the next message of a pipe, once it is there; None at the end of the pipe."""
    data = _message(descriptor)
    if data is None:
        return None
    found: Event = _EVENTS.decode(data)
    return found


def _message(descriptor: int) -> bytes | None:
    head = _exactly(descriptor, _LENGTH.size)
    return None if head is None else _exactly(descriptor, _LENGTH.unpack(head)[0])


def _exactly(descriptor: int, count: int) -> bytes | None:
    found = bytearray()
    while len(found) < count:
        part = os.read(descriptor, count - len(found))
        if not part:
            return None
        found += part
    return bytes(found)


def _plain(value: Any) -> Any:
    item = getattr(value, "item", None)
    if item is None or getattr(value, "shape", None) != ():
        raise NotImplementedError(f"a value of type {type(value).__name__} cannot be sent")
    return item()
