"""Reads a run file line by line, and says what is missing or damaged in it."""

import gc
import gzip
import hashlib
import os
import stat
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, cast

import msgspec

from reports.errors import DamagedLine, NewerSchema, RecordError, RunUnreadable
from reports.records.boundaries import Begin, End
from reports.records.cell import Cell, CellKey
from reports.records.codec import Line, decode
from reports.records.header import Run
from reports.records.record import RETRYABLE, Record
from reports.records.status import Status

MOST_BYTES = 2**30
"""Bytes of a run, decompressed, that are read at most. A run of 200,000 cells has 330 MB."""

LONGEST_LINE = 2**26
"""Bytes of one line that are read at most."""

MOST_PROBLEMS = 50
"""A file with more damage than this is not read to its end."""

_CHUNK = 2**20


@dataclass(kw_only=True)
class RunFile:
    """The content of a run file.

    Attributes:
        path: The file.
        records: The records in the order written, every attempt at a cell included.
        problems: What is damaged or contradictory, as `FILE:LINE: ...`.
        damaged: The part of `problems` about lines that are not JSON, such as a line that a crash cut short.
        expected: The cells that the run announced, in their order.
        runnable: The keys of those that can run here.
        begins: How often a session began.
        end: The last line, if the last session came to its end.
        deselected: Number of cells that options of pytest left out, in the first session.
        run_id: The id of the run; None where nothing could be read.
        headers: The headers of the sessions, the first one first.
    """

    path: Path
    records: list[Record] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)
    expected: dict[CellKey, Cell] = field(default_factory=dict)
    runnable: set[CellKey] = field(default_factory=set)
    begins: int = 0
    end: End | None = None
    deselected: int = 0
    run_id: str | None = None
    headers: list[Run] = field(default_factory=list)

    @property
    def missing(self) -> list[Cell]:
        """The cells that were announced and have no record."""
        found = {record.cell.key for record in self.records}
        return [cell for key, cell in self.expected.items() if key not in found]

    @property
    def is_complete(self) -> bool:
        """Whether the last session came to its end, and no cell is missing."""
        return bool(self.begins and self.end and not self.missing)

    @property
    def idle_kernels(self) -> list[tuple[str, str]]:
        """Operator and backend of each kernel that can run here, and of which every cell was skipped."""
        made = {_kernel(record.cell) for record in self.records if record.status is not Status.SKIPPED}
        recorded = {_kernel(record.cell) for record in self.records}
        able = dict.fromkeys(_kernel(cell) for key, cell in self.expected.items() if key in self.runnable)
        return [kernel for kernel in able if kernel in recorded and kernel not in made]


def load_run(path: str | Path) -> RunFile:
    """Reads a run file, and collects what is missing or damaged in it.

    Raises:
        RunUnreadable: The file cannot be opened or decompressed, is no regular file, is far larger than any run, or has
            more damage than `MOST_PROBLEMS`.
        NewerSchema: A line was written by a later version.
        RecordError: A line is JSON, but no line of a run. A crash cannot cause this.
    """
    reader = _Reader(Path(path))
    # Records form no cycles. Python's search for cycles would take half of the time of reading a large run.
    collects = gc.isenabled()
    gc.disable()
    try:
        for number, line in enumerate(read_lines(Path(path)), start=1):
            reader.take(number, line)
    finally:
        if collects:
            gc.enable()
    if reader.run.run_id is not None and not reader.run.begins:
        reader.problem(1, "no begin line: the beginning of this run is lost")
    return reader.run


def read_lines(path: Path) -> Iterator[bytes]:
    """Yields the lines of a file, each with its newline; a `.gz` file is decompressed piece by piece.

    A `.gz` file that was cut short yields what it still holds.

    Raises:
        RunUnreadable: See `load_run`.
    """
    total = 0
    try:
        with ExitStack() as stack:
            file = stack.enter_context(_opened(path))
            if path.suffix == ".gz":
                file = cast("IO[bytes]", stack.enter_context(gzip.GzipFile(fileobj=file)))
            rest: list[bytes] = []
            length = 0
            while piece := _piece(file):
                total += len(piece)
                length += len(piece)
                if length > LONGEST_LINE or total > MOST_BYTES:
                    what, most = ("a line", LONGEST_LINE) if length > LONGEST_LINE else ("the run", MOST_BYTES)
                    raise RunUnreadable(
                        f"{path}: {what} has more than {most:,} bytes. This is no run of kernel-bridge."
                    )
                rest.append(piece)
                if piece.endswith(b"\n"):
                    yield b"".join(rest)
                    rest, length = [], 0
            if rest:
                yield b"".join(rest)
    except (OSError, zlib.error, ValueError) as error:
        if isinstance(error, RunUnreadable):
            raise
        said = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise RunUnreadable(f"{path}: cannot be read: {said}.") from error


def _piece(file: IO[bytes]) -> bytes:
    """The next line, or a part of a long one; nothing at the end of the file, also where an archive was cut."""
    try:
        return file.readline(_CHUNK)
    except EOFError:
        return b""


def _opened(path: Path) -> IO[bytes]:
    # A pipe would block until somebody writes to it.
    file = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    mode = os.fstat(file).st_mode
    if not stat.S_ISREG(mode):
        os.close(file)
        kind = "a folder" if stat.S_ISDIR(mode) else "no regular file"
        raise RunUnreadable(f"{path}: cannot be read: is {kind}. Name the file of a run.")
    return os.fdopen(file, "rb")


class _Reader:
    """Takes the lines of a file one by one, and notes what contradicts the lines before."""

    def __init__(self, path: Path):
        self.run = RunFile(path=path)
        self._digest = hashlib.sha256()
        self._retried: set[CellKey] = set()
        self._status: dict[CellKey, Status] = {}
        self._is_open = False
        self._next = 0
        self._lost = 0
        self._headers: list[Run] = []

    def take(self, number: int, line: bytes) -> None:
        before = self._digest.copy()
        self._digest.update(line)
        if not line.strip():
            self.problem(number, "an empty line, which no session writes")
            return
        try:
            found = decode(line)
        except DamagedLine as error:
            self._lost += 1
            self.run.damaged.append(f"{self.run.path}:{number}: left out, {error}")
            self.problem(number, f"left out, {error}")
            return
        except (NewerSchema, RecordError) as error:
            raise type(error)(f"{self.run.path}:{number}: {error}") from error
        self._require_run(number, found)
        if isinstance(found, Record):
            # Each record repeats its header, its announced cell, and often shapes. In memory they share them.
            same = next((run for run in self._headers if run == found.run), None)
            if same is None:
                self._headers = [*self._headers[-7:], found.run]
            else:
                msgspec.structs.force_setattr(found, "run", same)
            msgspec.structs.force_setattr(found, "cell", self.run.expected.get(found.cell.key, found.cell))
            for last in self.run.records[-1:]:
                if (last.shapes, last.dtypes) == (found.shapes, found.dtypes):
                    msgspec.structs.force_setattr(found, "shapes", last.shapes)
                    msgspec.structs.force_setattr(found, "dtypes", last.dtypes)
        if isinstance(found, Begin):
            self._begin(number, found)
        elif isinstance(found, End):
            self._end(number, found, before.hexdigest())
        else:
            self._record(number, found)

    def problem(self, number: int, text: str) -> None:
        self.run.problems.append(f"{self.run.path}:{number}: {text}")
        if len(self.run.problems) > MOST_PROBLEMS:
            raise RunUnreadable(
                f"{self.run.problems[0]}; more than {MOST_PROBLEMS} lines of this file are damaged. Record it again."
            )

    def _require_run(self, number: int, found: Line) -> None:
        run_id = found.run_id if isinstance(found, End) else found.run.run_id
        if self.run.run_id is None:
            self.run.run_id = run_id
        elif run_id != self.run.run_id:
            self.problem(number, f"is of run {run_id!r}, the lines before are of run {self.run.run_id!r}")

    def _begin(self, number: int, found: Begin) -> None:
        cells = [*found.cells, *found.optional]
        self.run.expected |= {cell.key: cell for cell in cells if cell.key not in self.run.expected}
        self.run.runnable |= {cell.key for cell in found.cells}
        if not self.run.begins:
            self.run.deselected = found.deselected
        self.run.begins += 1
        self.run.headers.append(found.run)
        self.run.end, self._is_open = None, True
        # Only a cell that this session announces again may have a second result.
        self._retried = {cell.key for cell in cells}
        again = [cell for cell in cells if self._status.get(cell.key, Status.SKIPPED) not in RETRYABLE]
        if again:
            self.problem(number, f"tries {again[0].id} again, which was {self._status[again[0].key]}")

    def _end(self, number: int, found: End, digest: str) -> None:
        tally = Counter(record.status for record in self.run.records)
        if not self._is_open:
            self.problem(number, "an end line without a begin line")
        elif (found.count, found.statuses) != (len(self.run.records), dict(tally)):
            self.problem(number, f"the end line counts {found.count} records, the file has {len(self.run.records)}")
        elif found.digest != digest:
            self.problem(number, "the lines before are not those that were written: their checksum differs")
        self.run.end, self._is_open = found, False

    def _record(self, number: int, found: Record) -> None:
        key = found.cell.key
        missing = found.index - self._next  # each damaged line may have held a record
        if not 0 <= missing <= self._lost:
            self.problem(number, f"record {found.index} of the run is in the place of record {self._next}")
        elif not self._is_open:
            self.problem(number, "a record without a begin line before it")
        elif key not in self.run.expected:
            self.problem(number, f"{found.cell.id} is no cell that the run announced")
        elif key in self._status and key not in self._retried:
            self.problem(number, f"a second record of {found.cell.id}, which was {self._status[key]} before")
        self._lost -= max(0, min(missing, self._lost))
        self._next = found.index + 1
        self._retried.discard(key)
        self._status[key] = found.status
        self.run.records.append(found)


def _kernel(cell: Cell) -> tuple[str, str]:
    return cell.operator, cell.backend
