"""Finds and reads run files: one file per run, one line of JSON per record."""

import os
import secrets
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path

from reports.errors import ReportError, RunNotFound, RunUnwritable
from reports.records.boundaries import Begin
from reports.records.cell import CellKey
from reports.records.codec import decode
from reports.records.record import Record
from reports.records.run_file import read_lines

RUNS_VARIABLE = "KERNEL_BRIDGE_RUNS"
_FUTURE = timedelta(days=1)
"""A clock may be wrong by this much. A run from a later time comes from a broken clock."""

SUFFIXES = (".jsonl", ".jsonl.gz")
"""The suffixes of run files: as they are written, and as they are published."""


def runs_directory(runs_dir: str | Path | None = None) -> Path:
    """Returns `runs_dir`; if it is None, the folder of KERNEL_BRIDGE_RUNS, or else `runs` in the current folder."""
    return Path(runs_dir or os.environ.get(RUNS_VARIABLE) or "runs")


def new_run_id() -> str:
    """Returns an id that sorts by time (UTC, to the second), such as `20261120T190102-3f2a`."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(2)}"


def run_path(run_id: str, runs_dir: str | Path | None = None) -> Path:
    """Returns the path of the file of a run, in the folder of the runs.

    Raises:
        RunUnwritable: The id is not the name of a file.
    """
    if not isinstance(run_id, str) or not run_id or Path(run_id).name != run_id or "\\" in run_id or "\0" in run_id:
        raise RunUnwritable(f"the run id {run_id!r} is not the name of a file. Take one of new_run_id().")
    return runs_directory(runs_dir) / f"{run_id}{SUFFIXES[0]}"


def list_runs(runs_dir: str | Path | None = None) -> list[Path]:
    """Returns the run files of a folder, oldest first.

    An empty file counts: its session died before its first line. If a run exists both compressed and uncompressed, the
    uncompressed file is returned.

    Raises:
        RunNotFound: There is no such folder.
    """
    folder = runs_directory(runs_dir)
    if not folder.is_dir():
        raise RunNotFound(f"no folder {str(folder)!r}. Name the folder of the runs with --runs or {RUNS_VARIABLE}.")
    by_id: dict[str, Path] = {}
    for suffix in reversed(SUFFIXES):
        by_id.update({file.name.removesuffix(suffix): file for file in folder.glob(f"*{suffix}")})
    return [by_id[run_id] for run_id in sorted(by_id)]


def find_run(name: str | Path = "latest", runs_dir: str | Path | None = None) -> Path:
    """Returns the file of a run.

    Args:
        name: A path, a run id, the beginning of exactly one run id, `latest` or `previous`. The latest run is the
            newest one that holds a result and is not from the future. The previous one is the newest before it that can
            be compared with it: from the same kind of command, with a cell of the same operator, backend, dtype and
            size.
        runs_dir: The folder to search if `name` is not a path, see `runs_directory`.

    Raises:
        RunNotFound: No run fits the name, or more than one does.
    """
    path = Path(name)
    if _exists(path):
        if path.is_dir() and name not in ("latest", "previous"):
            raise RunNotFound(
                f"{str(name)!r} is a folder. Name a run in it, or give the folder with --runs, as in:"
                f" show latest --runs {name}"
            )
        if not path.is_dir():
            return path
    files = list_runs(runs_dir)
    folder = runs_directory(runs_dir)
    if not files:
        raise RunNotFound(f"no runs in {str(folder)!r}. Record one first, or name another folder with --runs.")
    if name in ("latest", "previous"):
        return _newest(files, folder, previous=name == "previous")
    ids = {run_id(file): file for file in files}
    fitting = [run for run in ids if run.startswith(str(name))]
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


def _newest(files: Iterable[Path], folder: Path, *, previous: bool) -> Path:
    """Returns the latest run of a folder, or the newest one before it that can be compared with it."""
    latest: tuple[str, set[CellKey]] | None = None
    for file in reversed([*files]):
        peek = _peek(file)
        if peek is None or (latest is not None and (peek[0] != latest[0] or not peek[1] & latest[1])):
            continue
        if latest is not None or not previous:
            return file
        latest = peek
    if latest is None:
        raise RunNotFound(f"no run in {str(folder)!r} holds a result. Record one, or name a file.")
    raise RunNotFound(
        f"no run before the latest in {str(folder)!r} can be compared with it: none is of the same kind of command and"
        " has the same cells. Record a second one, or name two runs."
    )


def _peek(path: Path) -> tuple[str, set[CellKey]] | None:
    """Returns the kind of command of a run and its expected cells; None for a run without a result to compare.

    It reads only the first two lines: if the second one is no result, the run has none, or cannot be read.
    """
    try:
        lines = [decode(line) for line in islice(read_lines(path), 2)]
    except ReportError:
        return None
    if not lines or not isinstance(lines[-1], Record):
        return None
    header = lines[-1].run
    if datetime.fromisoformat(header.started) > datetime.now(UTC) + _FUTURE:
        return None
    first = lines[0]
    cells = [*first.cells, *first.optional] if isinstance(first, Begin) else [lines[-1].cell]
    kind = header.profile.split()[0] if header.profile.startswith(("validate", "dispatch", "endure")) else "bench"
    return kind, {cell.versionless_key for cell in cells}


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # the name is too long for a file, or holds a zero byte
        return False


def run_id(path: Path) -> str:
    """Returns the run id in the name of a file."""
    return path.name.removesuffix(".gz").removesuffix(".jsonl")
