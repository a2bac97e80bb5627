"""Writes the command that repeats one cell."""

from __future__ import annotations

import keyword
import shlex

from reports.records.cell import Cell, short_dtype
from reports.records.header import Run
from reports.web.run_choice import RunKind


def repeat_command(cell: Cell, run: Run, kind: RunKind) -> str:
    """Returns what to type to run a cell again, as in ``kernel-bridge bench --operator add --backend warp``.

    The run names the files with operators, and the profile. A selection cannot name a check: so the command of a check
    runs only it, with pytest's ``-k``.

    Args:
        cell: The cell.
        run: The header of its run.
        kind: What the run did.
    """
    selection = run.selection or {}
    if kind is RunKind.CALLS:
        words = ["dispatch", "--backend", cell.backend]
        return _line(words + _device(cell))
    if kind is RunKind.ENDURANCE:
        words = ["endure", "--trial", cell.operator, "--backend", cell.backend]
        words += [part for name, value in cell.params.items() for part in (f"--{name}", str(value))]
        return _line(words + _device(cell))
    sources = [] if kind is RunKind.MUTANTS else selection.get("source", [])
    words = [{RunKind.TIMES: "bench", RunKind.CHECKS: "validate", RunKind.MUTANTS: "mutants"}[kind], *sources]
    words += ["--operator", cell.operator, "--backend", cell.backend, "--dtype", short_dtype(cell.dtype)]
    profile = run.profile.split()[-1]
    if kind is RunKind.TIMES:
        words += ["--size", str(cell.size)]
        words += ["--mode", cell.mode] if cell.mode != "forward" else []
        words += ["--peers"] if cell.backend in run.peers else []
    words += _device(cell)
    words += ["--profile", profile] if profile in ("quick", "full", "deep") else []
    if kind is not RunKind.TIMES and _names_a_check(cell.mode):
        words += ["--", "-k", " and ".join(cell.mode.split())]
    return _line(words)


def _device(cell: Cell) -> list[str]:
    return ["--device", cell.platform] if cell.platform != "cpu" else []


def _names_a_check(mode: str) -> bool:
    """Whether pytest's -k can look for the words of a name: it takes some words for operators."""
    return all(word.isidentifier() and not keyword.iskeyword(word) for word in mode.split())


def _line(words: list[str]) -> str:
    return f"kernel-bridge {shlex.join(words)}"
