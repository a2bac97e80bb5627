"""Writes run files, one line at a time."""

import contextlib
import hashlib
import os
import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from reports.errors import RecordError, RunUnreadable, RunUnwritable
from reports.records.boundaries import Begin, End
from reports.records.cell import Cell
from reports.records.cell_result import CellResult
from reports.records.codec import Line, encode
from reports.records.header import Run
from reports.records.record import SCHEMA, Record
from reports.records.run_file import load_run
from reports.records.status import Status
from reports.records.store import RUNS_VARIABLE


class RunWriter:
    """Writes the lines of a run: a begin, a record for each cell, and an end. A context manager.

    Each line is on disk before the method returns. If the file exists, the writer continues it. A crash can leave an
    incomplete last line, whose cell has no record: it is cut off before the next line is written. Neither two
    processes nor two threads may write the same file.

    Args:
        path: The file, uncompressed. Its folder is created now, the file with the first line.
        run: The header that each record repeats.

    Raises:
        RunUnreadable: The file belongs to another run, is damaged, or is compressed.
        RunUnwritable: The file cannot be written.
    """

    def __init__(self, path: str | Path, run: Run) -> None:
        self.path = Path(path)
        self.run = run
        if self.path.suffix == ".gz":
            raise RunUnreadable(f"{self.path}: a compressed run is finished. Decompress it to continue it.")
        require_writable(self.path)
        self._statuses: Counter[Status] = Counter()
        self._has_begun = False
        self._torn = 0
        self._continue()
        self._file: int | None = None
        self._closed = False
        self._began = time.monotonic()

    def begin(self, cells: Sequence[Cell], optional: Sequence[Cell] = (), *, deselected: int = 0) -> None:
        """Writes the list of cells that the session will record. A run without this line does not count as complete.

        Args:
            cells: The cells that will run, in their order; in a continued run, those that are left.
            optional: The cells that may all be skipped, because they cannot run here or a library is missing.
            deselected: Number of cells that options of pytest left out.

        Raises:
            RunUnreadable: The writer is closed.
            RunUnwritable: The disk is full, or the file cannot be written for another reason.
        """
        self._write(
            Begin(
                schema=SCHEMA, time=_now(), run=self.run, cells=list(cells), optional=list(optional),
                deselected=deselected,
            )
        )  # fmt: skip
        self._has_begun = True
        self._began = time.monotonic()

    def append(self, result: CellResult, *, time: str | None = None) -> Record:
        """Writes the record of one cell and returns it.

        Args:
            result: The result of the cell.
            time: When the cell ended: ISO 8601, UTC; by default now.

        Raises:
            RecordError: The result and the header contradict each other, JSON cannot hold a value, or the run has not
                begun. Nothing is written.
            RunUnreadable: The writer is closed.
            RunUnwritable: The disk is full, or the file cannot be written for another reason.
        """
        self._require_open()
        if not self._has_begun:
            raise RecordError(f"{result.cell.id}: the run has not begun. Call begin with its cells first.")
        record = Record(
            schema=SCHEMA,
            index=self._statuses.total(),
            time=time or _now(),
            run=self.run,
            **msgspec.structs.asdict(result),
        )
        self._write(record)
        self._statuses[record.status] += 1
        return record

    def end(self, exit_code: int) -> None:
        """Writes that the session came to its end, with a checksum of all lines before.

        A session that was interrupted does not call this: its run is incomplete.

        Args:
            exit_code: The exit code of the session, see `reports.options.Exit`.

        Raises:
            RecordError: The run has not begun.
            RunUnreadable: The writer is closed.
            RunUnwritable: The disk is full, or the file cannot be written for another reason.
        """
        self._require_open()
        if not self._has_begun:
            raise RecordError(f"{self.path}: the run has not begun. Call begin with its cells first.")
        self._cut_torn_line()
        with self.path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        self._write(
            End(
                schema=SCHEMA, time=_now(), run_id=self.run.run_id, count=self._statuses.total(),
                statuses=dict(self._statuses), seconds=round(time.monotonic() - self._began, 3), exit=exit_code,
                digest=digest,
            )
        )  # fmt: skip

    def close(self) -> None:
        """Closes the file; a second call does nothing."""
        self._closed = True
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _continue(self) -> None:
        """Reads the state of an existing file: its records, and the length of an incomplete last line."""
        if not self.path.exists() or not self.path.stat().st_size:
            return
        data = self.path.read_bytes()
        self._torn = len(data) - data.rfind(b"\n") - 1
        existing = load_run(self.path)
        if existing.run_id is not None and existing.run_id != self.run.run_id:
            raise RunUnreadable(
                f"{self.path}: holds run {existing.run_id!r}, the writer is for run {self.run.run_id!r}."
                " Write each run to its own file (see run_path)."
            )
        problems = [problem for problem in existing.problems if not self._torn or problem not in existing.torn]
        if problems:
            raise RunUnreadable(f"{problems[0]}. A damaged run cannot be continued: record it again.")
        self._statuses = Counter(record.status for record in existing.records)
        self._has_begun = bool(existing.begins)

    def _write(self, line: Line) -> None:
        """Writes a line. If that fails, no part of it stays in the file."""
        self._require_open()
        data = encode(line) + b"\n"
        self._cut_torn_line()
        self._put(data)

    def _require_open(self) -> None:
        if self._closed:
            raise RunUnreadable(f"{self.path}: this writer is closed. Open a new RunWriter to continue the run.")

    def _cut_torn_line(self) -> None:
        """Cuts off an incomplete last line."""
        if self._torn:
            try:
                os.truncate(self.path, self.path.stat().st_size - self._torn)
            except OSError as error:
                raise RunUnwritable(f"{self.path}: cannot be written: {error.strerror}.") from error
            self._torn = 0

    def _put(self, data: bytes) -> None:
        size = None
        try:
            if self._file is None:
                self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            size = os.fstat(self._file).st_size
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self._file, rest) :]
            os.fsync(self._file)
        except OSError as error:
            if size is not None and self._file is not None:
                with contextlib.suppress(OSError):  # if it cannot be cut off now, it is cut off before the next line
                    os.ftruncate(self._file, size)
                self._torn = max(0, os.fstat(self._file).st_size - size)
            raise RunUnwritable(f"{self.path}: cannot be written: {error.strerror or error}.") from error


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def require_writable(path: Path) -> None:
    """Creates the folder of a run file. Raises RunUnwritable if that fails, or if the file cannot be written."""
    if path.is_dir():
        raise RunUnwritable(f"{path}: cannot be written, it is a folder. Name a file, see run_path.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        reason = "" if os.access(path if path.exists() else path.parent, os.W_OK) else "permission denied"
    except OSError as error:
        reason = str(error.strerror)
    if reason:
        raise RunUnwritable(f"{path}: cannot be written, {reason}. Name a folder with --runs or {RUNS_VARIABLE}.")
