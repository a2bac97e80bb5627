"""Carries messages between a command that conducts timing processes and these processes, through pipes.

A timing process runs kernels, which may bring it down. The command then knows from the last message, and from
a file that both share (:class:`SharedPlace`), which cell it was. Messages are MessagePack: JSON has no NaN.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from multiprocessing.connection import Connection

import msgspec

from reports import Cell, CellResult, Run
from reports.records.codec import plain_scalar

VARIABLE = "KERNEL_BRIDGE_EVENTS"
"""The environment variable with three file descriptors: for messages up, for orders down, and of the shared place."""

PROTOCOL = 3
"""Raised when messages or orders change: processes of two revisions only work together if it is equal."""


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


Event = Opened | Started | Prepared | Ready | TurnEnded | Refused
Order = Prepare | Turn | Finish

_EVENTS = msgspec.msgpack.Decoder(Event)
_ORDERS = msgspec.msgpack.Decoder(Order)


class SharedPlace:
    """A file that two processes share: the place of the running cell in the list of the last order.

    The reader is not woken when it changes, so it disturbs nothing that is timed.

    Args:
        descriptor: The file descriptor; a new file by default.
    """

    NONE = 0xFFFF

    def __init__(self, descriptor: int | None = None) -> None:
        if descriptor is None:
            with tempfile.TemporaryFile() as file:
                descriptor = os.dup(file.fileno())
        self.descriptor = descriptor

    def set(self, number: int) -> None:
        """Writes the number."""
        os.pwrite(self.descriptor, number.to_bytes(2, "little"), 0)

    def get(self) -> int:
        """Reads it."""
        return int.from_bytes(os.pread(self.descriptor, 2, 0) or b"\xff\xff", "little")


class Conductor:
    """The command, as a timing process sees it."""

    def __init__(self, up: int, down: int, place: int) -> None:
        self._up, self._down = Connection(up, readable=False), Connection(down, writable=False)
        self.place = SharedPlace(place)

    @classmethod
    def of_environment(cls) -> Conductor | None:
        """Returns the command that started this process; None in a session that somebody started with pytest."""
        given = os.environ.get(VARIABLE)
        return None if given is None else cls(*map(int, given.split(",")))

    def send(self, event: Event) -> None:
        """Sends a message."""
        write(self._up, event)

    def orders(self) -> Iterator[Prepare | Turn]:
        """Yields the orders, until the last one or the end of the command."""
        while True:
            try:
                order: Order = _ORDERS.decode(self._down.recv_bytes())
            except EOFError:
                return
            if isinstance(order, Finish):
                return
            yield order


def write(connection: Connection, message: Event | Order) -> None:
    """Writes a message or an order to a pipe."""
    connection.send_bytes(msgspec.msgpack.encode(message, enc_hook=plain_scalar))


def event(connection: Connection) -> Event | None:
    """Returns the next message of a pipe, once it is there; None at the end of the pipe."""
    try:
        found: Event = _EVENTS.decode(connection.recv_bytes())
    except (EOFError, ConnectionResetError):
        return None
    return found
