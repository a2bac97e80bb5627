"""Carries messages between a command and the timing processes that it starts, through pipes.

A timing process runs kernels, and a kernel may crash it. The command then knows which cell ran from the last message,
and from a file that both share (:class:`SharedIndex`). Messages are MessagePack: JSON has no NaN.
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
"""The environment variable with three file descriptors: for messages, for orders, and of the :class:`SharedIndex`."""

PROTOCOL = 4
"""The version of the messages and orders. Processes of two revisions work together only if they have the same."""


class Opened(msgspec.Struct, frozen=True, tag=True):
    """The process has collected its cells.

    Attributes:
        protocol: The :data:`PROTOCOL` of the process.
        run: The header of a run that would start now.
        cells: The cells that can be timed, in their order.
        skipped: The cells that cannot run here, as records.
        refusal: Why the selection fits no cell; then the process has none. One of two revisions may lack a name.
        files: The files of all modules that the process has imported.
    """

    protocol: int
    run: Run
    cells: list[Cell]
    skipped: list[CellResult]
    refusal: str | None = None
    files: list[str] = []


class Started(msgspec.Struct, frozen=True, tag=True):
    """The process begins to prepare a cell."""

    cell: Cell


class Prepared(msgspec.Struct, frozen=True, tag=True):
    """A cell is compiled, and checked if the order says so; or it failed."""

    result: CellResult


class Ready(msgspec.Struct, frozen=True, tag=True):
    """The process has prepared all cells of the order."""


class Timed(msgspec.Struct, frozen=True, tag=True):
    """The process has timed the cells of the order; the results hold all its samples so far."""

    results: list[CellResult]


class Refused(msgspec.Struct, frozen=True, tag=True):
    """The session cannot run, for a reason that the user can change."""

    reason: str


class Prepare(msgspec.Struct, frozen=True, tag=True):
    """An order: compile ``cells``, and check those of them that are in ``to_check``."""

    cells: list[Cell]
    to_check: list[Cell]


class TimeCells(msgspec.Struct, frozen=True, tag=True):
    """An order: time the cells of a group once more.

    Attributes:
        cells: The cells.
        seconds: How long the rounds of a cell should take.
        last: Whether this is the last repetition of the group in this process.
        measures: In the last repetition: whether this process also measures roofs and memory.
    """

    cells: list[Cell]
    seconds: float
    last: bool
    measures: bool


class Finish(msgspec.Struct, frozen=True, tag=True):
    """An order: end the process."""


Event = Opened | Started | Prepared | Ready | Timed | Refused
Order = Prepare | TimeCells | Finish

_EVENTS = msgspec.msgpack.Decoder(Event)
_ORDERS = msgspec.msgpack.Decoder(Order)


class SharedIndex:
    """The index of the running cell in the last order, in a file that two processes share.

    A change does not wake the reader, so it does not disturb the timed calls.

    Args:
        descriptor: The file descriptor; a new file by default.
    """

    NONE = 0xFFFF

    def __init__(self, descriptor: int | None = None) -> None:
        if descriptor is None:
            with tempfile.TemporaryFile() as file:
                descriptor = os.dup(file.fileno())
        self.descriptor = descriptor

    def set(self, index: int) -> None:
        """Writes the index."""
        os.pwrite(self.descriptor, index.to_bytes(2, "little"), 0)

    def get(self) -> int:
        """Reads the index."""
        return int.from_bytes(os.pread(self.descriptor, 2, 0) or b"\xff\xff", "little")


class Conductor:
    """The command that started this process, as a timing process sees it."""

    def __init__(self) -> None:
        events, orders, running = map(int, os.environ[VARIABLE].split(","))
        self._events, self._orders = Connection(events, readable=False), Connection(orders, writable=False)
        self.running = SharedIndex(running)

    def send(self, event: Event) -> None:
        """Sends a message."""
        write(self._events, event)

    def orders(self) -> Iterator[Prepare | TimeCells]:
        """Yields the orders, until the last one or the end of the command."""
        while True:
            try:
                order: Order = _ORDERS.decode(self._orders.recv_bytes())
            except EOFError:
                return
            if isinstance(order, Finish):
                return
            yield order


def write(connection: Connection, message: Event | Order) -> None:
    """Writes a message or an order to a pipe."""
    connection.send_bytes(msgspec.msgpack.encode(message, enc_hook=plain_scalar))


def read(connection: Connection) -> Event | None:
    """Waits for the next message of a pipe, and returns it; None at the end of the pipe."""
    try:
        event: Event = _EVENTS.decode(connection.recv_bytes())
    except (EOFError, ConnectionResetError):
        return None
    return event
