"""Finds and reads run files: one file per run, one line of JSON per record."""

import os
import secrets
import warnings
from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from pathlib import Path

from reports.errors import DamagedLineWarning, RunNotFound, RunUnwritable
from reports.records.cell import CellKey
from reports.records.record import Record, last_by_cell
from reports.records.run_file import load_run
from reports.records.status import Status

RUNS_VARIABLE = "KERNEL_BRIDGE_RUNS"
SUFFIXES = (".jsonl", ".jsonl.gz")
"""A run is written as the first, and published as the second."""


def runs_directory(runs_dir: str | Path | None = None) -> Path:
    """Returns `runs_dir` if given; else the folder that KERNEL_BRIDGE_RUNS names; else `runs` in the current folder."""
    return Path(runs_dir or os.environ.get(RUNS_VARIABLE) or "runs")


def new_run_id() -> str:
    """Returns an id that sorts by time (UTC, to the second), such as `20261120T190102-3f2a`."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(2)}"


def run_path(run_id: str, runs_dir: str | Path | None = None) -> Path:
    """Returns the path of the file that the run with this id is written to, which is always in the folder.

    Raises:
        RunUnwritable: The id is not the name of a file.
    """
    if not isinstance(run_id, str) or not run_id or Path(run_id).name != run_id or "\\" in run_id or "\0" in run_id:
        raise RunUnwritable(f"the run id {run_id!r} is not the name of a file. Take one of new_run_id().")
    return runs_directory(runs_dir) / f"{run_id}{SUFFIXES[0]}"


def read_run(path: str | Path) -> list[Record]:
    """Returns the records of a run file in the order written, every attempt at a cell included.

    A crash can leave a line that is not JSON. Such a line is left out, with a `DamagedLineWarning`. Whether records are
    missing, `load_run` says.

    Raises:
        RunUnreadable: The file cannot be opened or decompressed.
        NewerSchema: A record was written by a later version.
        RecordError: A line is JSON but not a record. A crash cannot cause this.
    """
    run = load_run(path)
    for problem in run.damaged:
        warnings.warn(problem, DamagedLineWarning, stacklevel=2)
    return run.records


def list_runs(runs_dir: str | Path | None = None) -> list[Path]:
    """Returns the run files of a folder, oldest first.

    An empty file is one of them: its session died before its first line. If a run is there both compressed and not, the
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
        name: A path, a run id, the beginning of just one run id, `latest`, or `previous`, the one before it.
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


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # the name is too long for a file, or holds a zero byte
        return False


def run_id(path: Path) -> str:
    """Returns the run id that a file is named after."""
    return path.name.removesuffix(".gz").removesuffix(".jsonl")


def completed(records: Iterable[Record], retry: Collection[Status] = ()) -> set[CellKey]:
    """Returns the keys of the cells that a resumed run must not do again.

    Args:
        records: The records of the run so far. The last record of a cell decides.
        retry: Outcomes to try again, such as `{Status.TIMEOUT}`.
    """
    return {record.cell.key for record in last_by_cell(records) if record.status not in retry}
