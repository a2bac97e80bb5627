"""Carries the progress of a timing session to the command that started it, as lines of JSON through a pipe.

The session runs in a separate process, so that a kernel which crashes does not take the command with it. The command
then knows from the last event which cell it was.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import msgspec

from reports import Cell, Run, Status

VARIABLE = "KERNEL_BRIDGE_EVENTS"
"""The environment variable with the file descriptor that events are written to."""


class Busy(msgspec.Struct, frozen=True, tag=True):
    """The session does something other than timing a cell; ``what`` is a short text for a person."""

    what: str


class Opened(msgspec.Struct, frozen=True, tag=True):
    """The session writes to the run file ``path`` with the header ``run``, and will time ``cells`` cells."""

    path: str
    run: Run
    cells: int


class Started(msgspec.Struct, frozen=True, tag=True):
    """A cell begins."""

    cell: Cell


class Ended(msgspec.Struct, frozen=True, tag=True):
    """A cell has its result: ``median_ns`` per call if it passed, else a reason."""

    cell: Cell
    status: Status
    reason: str | None = None
    median_ns: float | None = None


class Recorded(msgspec.Struct, frozen=True, tag=True):
    """The record of the cell that ended last is on disk."""


class Refused(msgspec.Struct, frozen=True, tag=True):
    """The session cannot run, for a reason that the user can change."""

    reason: str


Event = Busy | Opened | Started | Ended | Recorded | Refused


def sender() -> Callable[[Event], None]:
    """Returns a function that sends events to the command; it does nothing in a session that no command started."""
    number = os.environ.get(VARIABLE)
    if number is None:
        return lambda event: None
    file = int(number)

    def send(event: Event) -> None:
        data = memoryview(msgspec.json.encode(event) + b"\n")
        while data:
            data = data[os.write(file, data) :]

    return send


def decode(line: bytes) -> Event:
    """Returns the event on a line."""
    event: Event = msgspec.json.decode(line, type=Event)
    return event
