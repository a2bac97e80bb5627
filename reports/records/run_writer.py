"""Writes run files, one record at a time."""

import os
import threading
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from reports.errors import RecordError, RunUnreadable, RunUnwritable
from reports.records.cell_result import CellResult
from reports.records.codec import encode
from reports.records.header import Run
from reports.records.record import SCHEMA, Record
from reports.records.store import RUNS_VARIABLE, read_run


class RunWriter:
    """Appends records to a run file. Each record is on disk before `append` returns. A context manager.

    If the file exists, the writer continues it. A crash can leave an incomplete last line: it stays as it is, and the
    next record starts a new line. Threads may share a writer. Two processes must not write the same file.

    Args:
        path: The file, uncompressed. Its folder is created now, the file with the first record: no run file is empty.
        run: The header that each record repeats.

    Raises:
        RunUnreadable: The file belongs to another run, or it is compressed.
        RunUnwritable: The file cannot be written.
    """

    def __init__(self, path: str | Path, run: Run) -> None:
        self.path = Path(path)
        self.run = run
        self._lock = threading.Lock()
        if self.path.suffix == ".gz":
            raise RunUnreadable(f"{self.path}: a compressed run is finished. Decompress it to continue it.")
        _require_writable(self.path)
        self._index, self._mid_line = self._continue_from()
        self._file: int | None = None
        self._closed = False

    def append(self, result: CellResult, run: Run | None = None) -> Record:
        """Writes the record of one cell and returns it.

        Args:
            result: The result of the cell.
            run: For a cell on another device, the header to use instead of the writer's, with the same `run_id`.

        Raises:
            RecordError: The result and the header contradict each other, or JSON cannot hold a value. Nothing is
                written.
            RunUnreadable: The writer is closed.
        """
        header = run or self.run
        if header.run_id != self.run.run_id:
            raise RecordError(f"{result.cell.id}: run {header.run_id!r} in the file of run {self.run.run_id!r}.")
        with self._lock:
            if self._closed:
                raise RunUnreadable(f"{self.path}: this writer is closed. Open a new RunWriter to continue the run.")
            record = Record(
                schema=SCHEMA,
                index=self._index,
                time=datetime.now(UTC).isoformat(timespec="milliseconds"),
                run=header,
                **msgspec.structs.asdict(result),
            )
            self._write_line(encode(record))
            self._index += 1
        return record

    def close(self) -> None:
        """Closes the file; a second call does nothing."""
        with self._lock:
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

    def _continue_from(self) -> tuple[int, bool]:
        """Returns the next index, and whether the last line of the file is incomplete."""
        if not self.path.exists() or not self.path.stat().st_size:
            return 0, False
        records = read_run(self.path)
        strangers = {record.run.run_id for record in records} - {self.run.run_id}
        if strangers:
            raise RunUnreadable(
                f"{self.path}: holds run {min(strangers)!r}, the writer is for run {self.run.run_id!r}."
                " Write each run to its own file (see run_path)."
            )
        with self.path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            mid_line = file.read(1) != b"\n"
        return 1 + max((record.index for record in records), default=-1), mid_line

    def _write_line(self, line: bytes) -> None:
        if self._file is None:
            self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        file = self._file
        data = memoryview((b"\n" if self._mid_line else b"") + line + b"\n")
        # A write can fail half way, on a full disk for example. Then the next record starts a new line.
        self._mid_line = True
        while data:
            data = data[os.write(file, data) :]
        os.fsync(file)
        self._mid_line = False


def _require_writable(path: Path) -> None:
    """Creates the folder of a run file. Raises RunUnwritable if that fails, or if the file cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        reason = "" if os.access(path if path.exists() else path.parent, os.W_OK) else "permission denied"
    except OSError as error:
        reason = str(error.strerror)
    if reason:
        raise RunUnwritable(f"{path}: cannot be written, {reason}. Name a folder with --runs or {RUNS_VARIABLE}.")
