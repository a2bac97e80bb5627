"""Continues a recorded run, if code, machine and settings are as when the run began, and no other session writes it."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import msgspec

from reports import Run, RunFile, find_run, list_runs, load_run
from suites.cells.selection import SelectionError

_MAY_DIFFER = {"run_id", "started", "host.load", "device.sm_clock_mhz", "device.other_processes", "device.is_slowed"}
"""The facts of a header that may differ: they say when the run began, and how busy the machine was."""

_SHOWN = 4


class RunLock:
    """Keeps other sessions from writing a run; the system releases it when this process ends, however it ends."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None

    def take(self, path: Path) -> None:
        """Locks a run file; a second call does nothing.

        Raises:
            SelectionError: Another session holds the lock, or the file cannot be read.
        """
        if self._file is not None:
            return
        try:
            file = path.open("rb")
        except OSError as error:
            raise SelectionError(f"{path}: cannot be read: {error.strerror}.") from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.close()
            raise SelectionError(f"{path}: another session is writing this run. Wait for its end.") from error
        self._file = file

    def release(self) -> None:
        """Lets other sessions continue the run; a second call does nothing."""
        if self._file is not None:
            self._file.close()
            self._file = None


def find_resumed(name: str) -> Path:
    """Returns the file of the run to continue. The latest one is the newest, also if it holds no result yet.

    Raises:
        ReportError: There is no such run.
    """
    return list_runs()[-1] if name == "latest" and list_runs() else find_run(name)


def load_for_resume(name: str, path: Path) -> RunFile:
    """Reads the run to continue.

    Raises:
        ReportError: The run cannot be read.
        SelectionError: It is damaged. A last line that a crash cut short is no damage.
    """
    run = load_run(path)
    if run.lasting_problems:
        problem = run.lasting_problems[0]
        raise SelectionError(f"--resume {name}: {problem}. A damaged run cannot be continued: start a new one.")
    return run


def continued_header(name: str, before: Sequence[Run], run: Run) -> Run:
    """Returns the header under which a session continues a run.

    Args:
        name: The argument of ``--resume``.
        before: The headers of the run so far; the first one counts.
        run: The header that a new run would have.

    Raises:
        SelectionError: The run differs from the session; the message lists the differences.
    """
    old = before[0] if before else run
    different = list(_differences(old, run))
    if different:
        shown = "; ".join(different[:_SHOWN])
        more = f"; and {len(different) - _SHOWN} more" if len(different) > _SHOWN else ""
        raise SelectionError(
            f"--resume {name}: that run was made elsewhere or otherwise: {shown}{more}. Make them the same again, or"
            " start a new run without --resume."
        )
    return msgspec.structs.replace(run, run_id=old.run_id, started=old.started)


def _differences(old: Run, new: Run) -> Iterator[str]:
    """Yields the facts of two headers that differ; a missing entry equals None."""
    one, two = _flat(msgspec.to_builtins(old)), _flat(msgspec.to_builtins(new))
    for name in dict.fromkeys([*one, *two]):
        if name not in _MAY_DIFFER and one.get(name) != two.get(name):
            yield f"{_WORDS.get(name, name)}: then {_text(one.get(name))}, now {_text(two.get(name))}"


_WORDS = {
    "source.commit": "commit",
    "source.dirty": "uncommitted changes",
    "source.digest": "content of the source files",
}


def _text(value: object) -> str:
    text = "not set" if value is None else repr(value)
    return text if len(text) <= 100 else text[:14] + "..."


def _flat(fields: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in fields.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return flat
