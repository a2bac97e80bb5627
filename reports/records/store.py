"""Keeps runs as files: one JSON line per record, one file per run."""

import gzip
import os
import secrets
import threading
import warnings
import zlib
from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from reports.errors import (
    DamagedLine,
    DamagedLineWarning,
    NewerSchema,
    RecordError,
    RunNotFound,
    RunUnreadable,
    RunUnwritable,
)
from reports.records.codec import decode, encode
from reports.records.record import SCHEMA, Accuracy, Cell, CellKey, Record, Run, Stages, Status, Timing, last_by_cell

RUNS_VARIABLE = "KERNEL_BRIDGE_RUNS"
SUFFIXES = (".jsonl", ".jsonl.gz")
"""A run as it is written, and as it is published."""


def runs_directory(runs_dir: str | Path | None = None) -> Path:
    """Returns the argument, else what KERNEL_BRIDGE_RUNS says, else `runs` under the current directory."""
    return Path(runs_dir or os.environ.get(RUNS_VARIABLE) or "runs")


def new_run_id() -> str:
    """Returns an id that sorts by time (UTC, to the second), such as `20261120T190102-3f2a`."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(2)}"


def run_path(run_id: str, runs_dir: str | Path | None = None) -> Path:
    """Returns where the run of this id is written."""
    return runs_directory(runs_dir) / f"{run_id}{SUFFIXES[0]}"


class RunWriter:
    """Appends records to a run file; each is on disk before `append` returns. A context manager.

    A file that exists is continued: its indices go on, and a last line that a crash cut short is left as it
    is, the next record starting on a line of its own. Threads may share a writer; two processes may not
    share a file.

    Args:
        path: The file, uncompressed. Its folder is created now, the file with its first record: no run is empty.
        run: The header that each record repeats.

    Raises:
        RunUnreadable: The file belongs to another run, or is compressed.
        RunUnwritable: The file cannot be written there.
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

    def append(
        self,
        *,
        cell: Cell,
        shapes: list[list[int]],
        dtypes: list[str],
        seed: int,
        status: Status,
        reason: str | None = None,
        accuracy: Accuracy | None = None,
        timing: Timing | None = None,
        stages: Stages | None = None,
        peak_memory_bytes: int | None = None,
        bytes: int | None = None,
        flops: int | None = None,
        bandwidth_limit: float | None = None,
        bandwidth_limit_kind: str | None = None,
        run: Run | None = None,
    ) -> Record:
        """Writes one record and returns it, with schema, index, time and run filled in.

        Args:
            run: Instead of the writer's header, for a cell on another device; of the same `run_id`.
            **others: As in `Record`.

        Raises:
            RecordError: The record contradicts itself; nothing was written.
        """
        header = run or self.run
        if header.run_id != self.run.run_id:
            raise RecordError(f"{cell.id}: run {header.run_id!r} in the file of run {self.run.run_id!r}.")
        with self._lock:
            if self._closed:
                raise RunUnreadable(f"{self.path}: this writer is closed. Open a new RunWriter to continue the run.")
            record = Record(
                schema=SCHEMA,
                index=self._index,
                time=datetime.now(UTC).isoformat(timespec="milliseconds"),
                run=header,
                cell=cell,
                shapes=shapes,
                dtypes=dtypes,
                seed=seed,
                status=status,
                reason=reason,
                accuracy=accuracy,
                timing=timing,
                stages=stages,
                peak_memory_bytes=peak_memory_bytes,
                bytes=bytes,
                flops=flops,
                bandwidth_limit=bandwidth_limit,
                bandwidth_limit_kind=bandwidth_limit_kind,
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
        """Returns the next index, and whether the file ends in the middle of a line."""
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
        # A write that fails half way (a full disk) leaves a fragment: the next record starts a new line.
        self._mid_line = True
        while data:
            data = data[os.write(file, data) :]
        os.fsync(file)
        self._mid_line = False


def _require_writable(path: Path) -> None:
    """Creates the folder of a run file; raises RunUnwritable where it cannot be, or the file cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        reason = "" if os.access(path if path.exists() else path.parent, os.W_OK) else "permission denied"
    except OSError as error:
        reason = str(error.strerror)
    if reason:
        raise RunUnwritable(f"{path}: cannot be written, {reason}. Name a folder with --runs or {RUNS_VARIABLE}.")


def read_run(path: str | Path) -> list[Record]:
    """Returns the records of a run file in the order written, every attempt at a cell included.

    Lines that are not JSON, which a crash leaves behind, are left out, each with a `DamagedLineWarning`.

    Raises:
        RunUnreadable: The file cannot be opened or decompressed.
        NewerSchema: A record was written by a later version.
        RecordError: A line is JSON, but no record: no crash does that.
    """
    path = Path(path)
    try:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise RunUnreadable(f"{path}: cannot be read: {error}.") from error
    records = []
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            records.append(decode(line))
        except DamagedLine as error:
            warnings.warn(f"{path}:{number}: left out, {error}", DamagedLineWarning, stacklevel=2)
        except (NewerSchema, RecordError) as error:
            raise type(error)(f"{path}:{number}: {error}") from error
    return records


def list_runs(runs_dir: str | Path | None = None) -> list[Path]:
    """Returns the run files of a folder that hold something, oldest first.

    Of a run kept in both forms it returns the uncompressed one.

    Raises:
        RunNotFound: There is no such folder.
    """
    folder = runs_directory(runs_dir)
    if not folder.is_dir():
        raise RunNotFound(f"no folder {str(folder)!r}. Name the folder of the runs with --runs or {RUNS_VARIABLE}.")
    by_id: dict[str, Path] = {}
    for suffix in reversed(SUFFIXES):
        files = (file for file in folder.glob(f"*{suffix}") if file.stat().st_size)
        by_id.update({file.name.removesuffix(suffix): file for file in files})
    return [by_id[run_id] for run_id in sorted(by_id)]


def find_run(name: str | Path = "latest", runs_dir: str | Path | None = None) -> Path:
    """Returns the file of a run.

    Args:
        name: A path, a run id, the beginning of just one run id, `latest`, or `previous`, the one before it.
        runs_dir: Where to look for all but a path, see `runs_directory`.

    Raises:
        RunNotFound: Nothing fits, or more than one run does.
    """
    if Path(name).is_file():
        return Path(name)
    files = list_runs(runs_dir)
    folder = runs_directory(runs_dir)
    if not files:
        raise RunNotFound(f"no runs in {str(folder)!r}. Record one first, or name another folder with --runs.")
    if name == "latest":
        return files[-1]
    if name == "previous":
        if len(files) < 2:
            raise RunNotFound(f"no run before the latest in {str(folder)!r}. Record a second one.")
        return files[-2]
    ids = {run_id(file): file for file in files}
    fitting = [found for found in ids if found.startswith(str(name))]
    if str(name) in ids:
        return ids[str(name)]
    if len(fitting) == 1:
        return ids[fitting[0]]
    if fitting:
        raise RunNotFound(f"{str(name)!r} begins {len(fitting)} runs: {', '.join(fitting[:5])}. Give more of the id.")
    raise RunNotFound(
        f"no run {str(name)!r} in {str(folder)!r}, which holds {len(ids)} (the latest is {max(ids)})."
        " Give a path, a run id, the beginning of one, 'latest' or 'previous'."
    )


def run_id(path: Path) -> str:
    """Returns the run id that a file is named after."""
    return path.name.removesuffix(".gz").removesuffix(".jsonl")


def completed(records: Iterable[Record], retry: Collection[Status] = ()) -> set[CellKey]:
    """Returns the keys of the cells that a resumed run need not do again.

    Args:
        records: What the run holds so far.
        retry: Outcomes to try again, such as `{Status.TIMEOUT}`; a cell's last record decides.
    """
    return {record.cell.key for record in last_by_cell(records) if record.status not in retry}
