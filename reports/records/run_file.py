"""Reads a run file line by line, and collects its missing and damaged parts."""

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
"""Most bytes of a run, decompressed. A run of 200,000 cells has 330 MB."""

LONGEST_LINE = 2**26
"""Most bytes of one line."""

MOST_PROBLEMS = 50
"""A file with more damaged lines than this is not read to its end."""


@dataclass(kw_only=True)
class RunFile:
    """The content of a run file.

    Attributes:
        path: The file.
        records: The records in the order written, every attempt at a cell included.
        problems: Damaged and contradictory lines, as `FILE:LINE: ...`.
        torn: The part of `problems` about the last line, if a crash cut it short.
        expected: The cells that the run announced, in their order.
        runnable: The keys of those that can run here.
        begins: How often a session began.
        end: The last line, if the last session came to its end.
        deselected: Number of cells that options of pytest left out, in the first session.
        run_id: The id of the run; None if nothing could be read.
        headers: The headers of the sessions, the first one first.
    """

    path: Path
    records: list[Record] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    torn: list[str] = field(default_factory=list)
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
        recorded = {record.cell.key for record in self.records}
        return [cell for key, cell in self.expected.items() if key not in recorded]

    @property
    def is_complete(self) -> bool:
        """Whether the last session ended in order, and no cell is missing."""
        return bool(self.begins and self.end and not self.missing)

    @property
    def lasting_problems(self) -> list[str]:
        """The problems without that of a last line that a crash cut short, which may be written again."""
        return [each for each in self.problems if each not in self.torn]

    @property
    def idle_kernels(self) -> list[tuple[str, str]]:
        """Operator and backend of each kernel that can run here, and of which every cell was skipped."""
        ran = {_kernel(record.cell) for record in self.records if record.status is not Status.SKIPPED}
        recorded = {_kernel(record.cell) for record in self.records}
        runnable = dict.fromkeys(_kernel(cell) for key, cell in self.expected.items() if key in self.runnable)
        return [kernel for kernel in runnable if kernel in recorded and kernel not in ran]


def load_run(path: str | Path) -> RunFile:
    """Reads a run file, and collects its missing and damaged parts.

    Raises:
        RunUnreadable: The file cannot be opened or decompressed, is no regular file, is far larger than any run, or has
            more damage than `MOST_PROBLEMS`.
        NewerSchema: A line was written by a later version.
        RecordError: A line is JSON, but no line of a run, which a crash cannot cause.
    """
    reader = _Reader(Path(path))
    # Records have no reference cycles, and Python's search for cycles would take half of the time of a large run.
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
    """Yields the lines of a file, each with its newline; a `.gz` file is decompressed line by line.

    A `.gz` file that was cut short yields the lines that it still holds.

    Raises:
        RunUnreadable: See `load_run`.
    """
    total = 0
    try:
        with ExitStack() as stack:
            file = stack.enter_context(_open(path))
            if path.suffix == ".gz":
                file = cast("IO[bytes]", stack.enter_context(gzip.GzipFile(fileobj=file)))
            while line := _line(file):
                total += len(line)
                for what, size, most in (("a line", len(line), LONGEST_LINE), ("the run", total, MOST_BYTES)):
                    if size > most:
                        raise RunUnreadable(
                            f"{path}: {what} has more than {most:,} bytes. This is no run of kernel-bridge."
                        )
                yield line
    except (OSError, zlib.error, ValueError) as error:
        if isinstance(error, RunUnreadable):
            raise
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise RunUnreadable(f"{path}: cannot be read: {reason}.") from error


def _line(file: IO[bytes]) -> bytes:
    """Returns the next line, of one that is too long the begin; nothing at the end, also of an archive that was cut."""
    try:
        return file.readline(LONGEST_LINE + 1)
    except EOFError:
        return b""


def _open(path: Path) -> IO[bytes]:
    # A pipe would block until somebody writes to it.
    file = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    mode = os.fstat(file).st_mode
    if not stat.S_ISREG(mode):
        os.close(file)
        kind = "a folder" if stat.S_ISDIR(mode) else "no regular file"
        raise RunUnreadable(f"{path}: cannot be read: is {kind}. Name the file of a run.")
    return os.fdopen(file, "rb")


class _Reader:
    """Takes the lines of a file one by one, and notes lines that contradict earlier ones."""

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
        self.run.torn = []
        if not line.strip():
            self.problem(number, "an empty line, which no session writes")
            return
        try:
            if not line.endswith(b"\n"):
                raise DamagedLine("its end is missing")
            content = decode(line)
        except DamagedLine as error:
            self._lost += 1
            self.problem(number, f"left out, {error}")
            self.run.torn = self.run.problems[-1:]
            return
        except (NewerSchema, RecordError) as error:
            raise type(error)(f"{self.run.path}:{number}: {error}") from error
        self._require_run(number, content)
        if isinstance(content, Record):
            # Each record repeats its header and its announced cell. In memory they share them.
            same = next((run for run in self._headers if run == content.run), None)
            if same is None:
                self._headers = [*self._headers[-7:], content.run]
            else:
                msgspec.structs.force_setattr(content, "run", same)
            msgspec.structs.force_setattr(content, "cell", self.run.expected.get(content.cell.key, content.cell))
        if isinstance(content, Begin):
            self._begin(number, content)
        elif isinstance(content, End):
            self._end(number, content, before.hexdigest())
        else:
            self._record(number, content)

    def problem(self, number: int, text: str) -> None:
        self.run.problems.append(f"{self.run.path}:{number}: {text}")
        if len(self.run.problems) > MOST_PROBLEMS:
            raise RunUnreadable(
                f"{self.run.problems[0]}; more than {MOST_PROBLEMS} lines of this file are damaged. Record it again."
            )

    def _require_run(self, number: int, content: Line) -> None:
        run_id = content.run_id if isinstance(content, End) else content.run.run_id
        if self.run.run_id is None:
            self.run.run_id = run_id
        elif run_id != self.run.run_id:
            self.problem(number, f"is of run {run_id!r}, the lines before are of run {self.run.run_id!r}")

    def _begin(self, number: int, begin: Begin) -> None:
        cells = [*begin.cells, *begin.optional]
        self.run.expected |= {cell.key: cell for cell in cells if cell.key not in self.run.expected}
        self.run.runnable |= {cell.key for cell in begin.cells}
        if not self.run.begins:
            self.run.deselected = begin.deselected
        self.run.begins += 1
        self.run.headers.append(begin.run)
        self.run.end, self._is_open = None, True
        # Only a cell that this session announces again may have a second result.
        self._retried = {cell.key for cell in cells}
        again = [cell for cell in cells if self._status.get(cell.key, Status.SKIPPED) not in RETRYABLE]
        if again:
            self.problem(number, f"tries {again[0].id} again, which was {self._status[again[0].key]}")

    def _end(self, number: int, end: End, digest: str) -> None:
        tally = Counter(record.status for record in self.run.records)
        if not self._is_open:
            self.problem(number, "an end line without a begin line")
        elif (end.count, end.statuses) != (len(self.run.records), dict(tally)):
            self.problem(number, f"the end line counts {end.count} records, the file has {len(self.run.records)}")
        elif end.digest != digest:
            self.problem(number, "the lines before are not those that were written: their checksum differs")
        self.run.end, self._is_open = end, False

    def _record(self, number: int, record: Record) -> None:
        key = record.cell.key
        missing = record.index - self._next  # each damaged line may have held a record
        if not 0 <= missing <= self._lost:
            self.problem(number, f"record {record.index} of the run is in the place of record {self._next}")
        elif not self._is_open:
            self.problem(number, "a record without a begin line before it")
        elif key not in self.run.expected:
            self.problem(number, f"{record.cell.id} is no cell that the run announced")
        elif key in self._status and key not in self._retried:
            self.problem(number, f"a second record of {record.cell.id}, which was {self._status[key]} before")
        self._lost -= max(0, min(missing, self._lost))
        self._next = record.index + 1
        self._retried.discard(key)
        self._status[key] = record.status
        self.run.records.append(record)


def _kernel(cell: Cell) -> tuple[str, str]:
    return cell.operator, cell.backend
