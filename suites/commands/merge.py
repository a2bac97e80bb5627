"""Joins the recorded parts of a run (``--part 3/8``) into one run, and names the missing ones: ``merge``."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from reports import CellResult, Run, RunFile, RunUnreadable, RunWriter, find_run, judge, load_run, new_run_id, run_path
from reports.records.header import part_of
from reports.records.record import last_by_cell
from reports.records.store import run_id
from reports.render.visible import visible
from suites.cells.selection import option_words
from suites.checks.drawn.session_choices import SEED_FLAG
from suites.processes.resuming import RunLock


def merge(names: Sequence[str], runs: str | Path | None = None) -> Path:
    """Writes a run with the cells of all parts; each cell keeps the header of its machine.

    If a part is missing, the run gets no last line, so it counts as incomplete.

    Args:
        names: The parts, or runs of several parts, as :func:`reports.find_run` takes them, in any order.
        runs: The folder of the runs.

    Raises:
        ReportError: A run is no part, or a part of another run, or is given twice.
    """
    path = run_path(new_run_id(), runs)
    parts, joined = _checked(names, path, runs)
    for run in sorted(parts, key=lambda run: part_of(str(run.headers[0].part))):
        joined.write(run)
    for text in (f"part {each} is missing" for each in joined.missing):
        print(f"kernel-bridge merge: {text}", file=sys.stderr)
    print(f"{len(joined.parts)} of {joined.count} parts joined", file=sys.stderr)
    joined.close()
    return path


def commands_of_missing(names: Sequence[str], runs: str | Path | None = None) -> list[str]:
    """Returns the command that records each missing part; arguments as for :func:`merge`."""
    _, joined = _checked(names, run_path(new_run_id(), runs), runs)
    run = joined.first
    command, _, profile = run.profile.rpartition(" ")
    words = command_words(
        command or "bench", run.selection or {}, run.device.platform, profile, run.flags.get(SEED_FLAG)
    )  # fmt: skip
    return [shlex.join(["kernel-bridge", *words, "--part", part]) for part in joined.missing]


def command_words(
    command: str, by_option: Mapping[str, Sequence[str]], device: str, profile: str, seed: object
) -> list[str]:
    """Returns the words, after ``kernel-bridge``, that run a selection."""
    words = [command, *by_option.get("source", ()), *option_words(by_option, "--")]
    return [*words, "--device", device, "--profile", profile, *([] if seed is None else ["--seed", str(seed)])]


def _checked(names: Sequence[str], path: Path, runs: str | Path | None) -> tuple[list[RunFile], JoinedRun]:
    parts, joined = [load_run(find_run(name, runs)) for name in names], JoinedRun(path)
    for run in parts:
        joined.check(run)
    return parts, joined


class JoinedRun:
    """The run to which parts are joined. A file that exists is continued, and no other session may write it.

    Attributes:
        path: The run file.
        parts: The file from which each part came, by its text, such as ``3/8``.
        done: The keys of the cells that the run has.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.parts: dict[str, Path] = {}
        self.done: set[object] = set()
        self._first: Run | None = None
        self._lock = RunLock()
        if path.exists():
            self._lock.take(path)
            before = load_run(path)
            self.check(before)
            self.done = {record.cell.key for record in before.records}

    @property
    def first(self) -> Run:
        """The header of the first part."""
        assert self._first is not None
        return self._first

    @property
    def count(self) -> int:
        """The number of all parts."""
        return part_of(str(self.first.part))[1]

    @property
    def missing(self) -> list[str]:
        """The parts that no file has, or that lack cells."""
        every = [f"{number}/{self.count}" for number in range(1, self.count + 1)]
        return [part for part in every if part not in self.parts]

    def check(self, run: RunFile) -> None:
        """Takes note of a run of one or more parts, before anything of it is written.

        Raises:
            ReportError: The run is no part, or a part of another run, or has a part that another file has.
        """
        if not run.headers or any(header.part is None for header in run.headers):
            raise RunUnreadable(f"{visible(str(run.path))}: is not a part of a run: it was recorded without --part.")
        if run.lasting_problems:
            raise RunUnreadable(run.lasting_problems[0])
        for header in run.headers:
            self._first = self._first or header
            _require_alike(run.path, self._first, header)
        parts = list(dict.fromkeys(str(header.part) for header in run.headers))
        for part in parts[:-1] if run.missing else parts:  # a session that ended early did so in its last part
            if part in self.parts:
                raise RunUnreadable(f"{run.path}: part {part} is in {self.parts[part]} too. Name each part once.")
            self.parts[part] = run.path

    def write(self, run: RunFile) -> None:
        """Writes the cells of a checked run that this one does not have, each under the header of its machine."""
        records = [record for record in last_by_cell(run.records) if record.cell.key not in self.done]
        for header in {header.part: header for header in run.headers}.values():
            own = [record for record in records if record.run.part == header.part]
            cells = [*(record.cell for record in own), *(run.missing if header.part == run.headers[-1].part else ())]
            with self._writer(header) as writer:
                runs = [cell for cell in cells if cell.key in run.runnable]
                writer.begin(runs, [cell for cell in cells if cell.key not in run.runnable])
                for record in own:
                    result = CellResult(**{name: getattr(record, name) for name in CellResult.__struct_fields__})
                    writer.append(result, time=record.time)
        self.done.update(record.cell.key for record in records)
        self._lock.take(self.path)

    def close(self) -> None:
        """Writes the last line, with the exit code of the whole run, if no part is missing, and lets others write."""
        self._lock.release()
        if self._first and not self.missing and (run := load_run(self.path)).end is None:
            with self._writer(self.first) as writer:
                writer.end(int(judge(run, has_ended=True).exit))

    def _writer(self, header: Run) -> RunWriter:
        return RunWriter(self.path, msgspec.structs.replace(header, run_id=run_id(self.path)))


def _require_alike(path: Path, first: Run, header: Run) -> None:
    """Raises RunUnreadable if two parts do not belong together."""
    facts: dict[str, Callable[[Run], object]] = {
        "number of parts": lambda run: part_of(str(run.part))[1],
        "profile": lambda run: run.profile,
        "selection": lambda run: run.selection,
        "platform": lambda run: run.device.platform,
        "content of the source files": lambda run: run.source.digest,
    }
    for what, fact in facts.items():
        if fact(first) != fact(header):
            difference = f"{what}: {fact(header)!r}, the first part has {fact(first)!r}"
            raise RunUnreadable(f"{path}: is a part of another run. {difference}.")
