"""Implements ``merge``: joins the recorded parts of a run (``--part 3/8``) into one run, and names the missing ones."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from reports import (
    CellResult,
    Run,
    RunFile,
    RunUnreadable,
    RunWriter,
    find_run,
    judge,
    load_run,
    new_run_id,
    run_path,
)
from reports.records.header import part_of
from reports.records.record import last_by_cell
from reports.render.visible import visible


def merge(names: Sequence[str], runs: str | Path | None = None) -> Path:
    """Writes a run with the cells of all parts; each cell keeps the header of its machine.

    If a part is missing, the run gets no last line, so it counts as incomplete.

    Args:
        names: The parts: runs as :func:`reports.find_run` takes them, in any order.
        runs: The folder of the runs.

    Raises:
        ReportError: A run is no part, or a part of another run, or is given twice.
    """
    parts: dict[int, RunFile] = {}
    first: Run | None = None
    for name in names:
        run = load_run(find_run(name, runs))
        header = _header(run)
        first = first or header
        _require_alike(run.path, first, header)
        number, _ = part_of(str(header.part))
        if number in parts:
            raise RunUnreadable(f"{run.path}: part {header.part} is in {parts[number].path} too. Name each part once.")
        parts[number] = run
    assert first is not None
    count = part_of(str(first.part))[1]
    missing = [f"{number}/{count}" for number in range(1, count + 1) if number not in parts]
    path = run_path(new_run_id(), runs)
    for number in sorted(parts):
        _append(path, parts[number])
    is_complete = not missing and all(run.end is not None for run in parts.values())
    if is_complete:
        with RunWriter(path, load_run(path).headers[0]) as writer:
            writer.end(int(judge(load_run(path), has_ended=True).exit))
    for text in (f"part {each} is missing" for each in missing):
        print(f"kernel-bridge merge: {text}", file=sys.stderr)
    print(f"{len(parts)} of {count} parts joined", file=sys.stderr)
    return path


def _header(run: RunFile) -> Run:
    if not run.headers or run.headers[0].part is None:
        raise RunUnreadable(f"{visible(str(run.path))}: is not a part of a run: it was recorded without --part.")
    if run.problems:
        raise RunUnreadable(run.problems[0])
    return run.headers[0]


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


def _append(path: Path, run: RunFile) -> None:
    own = msgspec.structs.replace(run.headers[0], run_id=path.name.partition(".")[0], part=None)
    with RunWriter(path, own) as writer:
        cells = [cell for key, cell in run.expected.items() if key in run.runnable]
        writer.begin(cells, [cell for key, cell in run.expected.items() if key not in run.runnable])
        for record in last_by_cell(run.records):
            writer.append(CellResult(**{name: getattr(record, name) for name in CellResult.__struct_fields__}))
