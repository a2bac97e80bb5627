"""Implements ``gate``: it compares a change with a base, and decides by the policy of the project whether it passes."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from reports import Record, RunFile, find_run, judge, load_run
from reports.errors import PolicyError, RunUnreadable
from reports.gate.baselines import find_baseline, require_baselines, save_baseline
from reports.gate.gate_page import gate_page
from reports.gate.policy import BASELINE, FILE, TABLE, Policy, find_policy
from reports.gate.ruling import GateDecision, decide_gate
from reports.options import Exit
from reports.pages.alike import are_interleaved
from reports.pages.compare import compare
from reports.render.frame_files import check_export, export
from reports.render.page import show
from reports.render.visible import visible
from reports.statistics.verdict_codes import LARGE, LARGE_APART
from suites.cells.selection import Selection
from suites.errors import RevisionError
from suites.revisions.repository import SHORT
from suites.sessions import expectation
from suites.sessions.compare_command import measure_revisions, say_recorded, selected
from suites.sessions.compared import TwoRevisions, TwoRuns, find_compared, split_names


def gate(options: argparse.Namespace) -> Exit:
    """Decides whether a change passes, and shows why.

    Raises:
        PolicyError: The policy makes no sense, or names no base.
        RevisionError: A name stands for nothing, or a revision cannot be timed.
        ReportError: A run or a baseline cannot be read, or there is no baseline.
    """
    policy, home = find_policy(Path.cwd())
    if options.save:
        if options.names:
            raise PolicyError(f"--save stores a run and compares nothing: leave {options.names[0]} out.")
        path = save_baseline(find_run(options.save, options.runs), home / policy.baselines)
        print(f"stored in {path}: the baseline of this machine for {policy.max_age_days:g} days", file=sys.stderr)
        return Exit.FINE
    check_export(options.export)
    base, head, files = split_names([*options.names] or [_base(policy, home)])
    selection = selected(options, files)
    if not selection.sources:
        selection = replace(selection, sources=tuple(_from(home, source) for source in policy.operators))
    notes: list[str] = []
    if options.large:
        policy = msgspec.structs.replace(policy, large=dict.fromkeys(LARGE, options.large))
        notes.append(f"large: {options.large:.0%} by --large, whatever the policy says")
    if base == BASELINE:
        runs = _against_baseline(policy, home, head, selection, options)
    else:
        runs = _against_base(policy, base, head, selection, options, notes)
    return _decided(policy, runs, selection, options, notes)


def _base(policy: Policy, home: Path) -> str:
    if policy.base is None:
        raise PolicyError(
            f'no base to compare with. Name a revision, such as origin/main, or set base = "origin/main" in [{TABLE}]'
            f" of {home / FILE}."
        )
    return policy.base


def _from(home: Path, source: str) -> str:
    return os.path.relpath(home / source) if source.endswith(".py") else source


def _against_base(
    policy: Policy, base: str, head: str | None, selection: Selection, options: argparse.Namespace, notes: list[str]
) -> tuple[RunFile, RunFile]:
    """Returns the runs of the two sides: of revisions after timing them, else as recorded."""
    found = find_compared(base, head, selection, options.runs)
    if isinstance(found, TwoRuns):
        return _read(found.base), _read(found.head)
    # What others have changed since a branch began is not the change that is judged.
    fork = found.repository.merge_base(found.base, found.head)
    if fork != found.base:
        notes.append(f"base: {fork[:SHORT]}, where {head or 'HEAD'} left {base}, which is at {found.base[:SHORT]} now")
    if fork == found.head:
        raise RevisionError(
            f"head ({found.head[:SHORT]}) holds nothing that {base} does not hold: there is no change to judge. Name an"
            " older base, such as HEAD~1."
        )
    change = TwoRevisions(found.repository, fork, found.head, found.takes_changes)
    minutes = options.minutes or policy.minutes
    measured = measure_revisions(change, selection, options, minutes=minutes, q=policy.false_discovery_rate)
    say_recorded(options, measured)
    if measured.note:
        notes.append(measured.note)
    return _read(measured.base), _read(measured.head)


def _against_baseline(
    policy: Policy, home: Path, head: str | None, selection: Selection, options: argparse.Namespace
) -> tuple[RunFile, RunFile]:
    """Returns the baseline of this machine and the run that is judged: a recorded one, or one of the code as it is."""
    folder, now = home / policy.baselines, datetime.now(UTC)
    if head is None:
        from suites.sessions.bench_command import bench

        require_baselines(folder, selection.device)  # before a minute of work
        print(f"kernel-bridge: timing the {selection.profile} profile on {selection.device}", file=sys.stderr)
        outcome = bench(selection, timeout_s=options.timeout, verbose=options.verbose)
        if outcome.path is None or outcome.refusal or outcome.interrupted:
            raise RevisionError(outcome.refusal or "interrupted: there is nothing to compare with the baseline.")
        path = outcome.path
    else:
        path = find_run(head, options.runs)
    run = _read(path)
    return find_baseline(folder, run.records[-1].run, now, policy.max_age_days), run


def _decided(
    policy: Policy, runs: tuple[RunFile, RunFile], selection: Selection, options: argparse.Namespace, notes: list[str]
) -> Exit:
    base, head = ([record for record in run.records if _is_selected(record, selection)] for run in runs)
    if not base or not head:
        side = "base" if not base else "head"
        raise RunUnreadable(f"{side} has no cell of the selection {selection}.")
    headers = base[-1].run, head[-1].run
    interleaved = are_interleaved(*headers)
    if not interleaved:
        notes.append("ratio: of the ratios to jnp, because the two runs took place one after the other")
    large = {**(LARGE if interleaved else LARGE_APART), **{str(name): share for name, share in policy.large.items()}}
    comparisons = compare(
        base, head, smallest={str(name): share for name, share in policy.smallest.items()},
        large=large, q=policy.false_discovery_rate, interleaved=interleaved,
    )  # fmt: skip
    expected = {options.device or headers[1].device.platform}
    expected |= {os.environ[name] for name in (expectation.VARIABLE,) if os.environ.get(name)}
    decision = decide_gate(
        policy, comparisons, today=datetime.now(UTC).date(), large=large, platforms=expected, doubts=_doubts(runs)
    )
    page = gate_page(decision, *headers, notes)
    show(page, options)
    if options.export:
        export(page.frame, page.json_columns, options.export)
    _say(options, decision)
    return decision.exit


def _doubts(runs: tuple[RunFile, RunFile]) -> list[str]:
    """Returns what is missing or damaged in the runs; what was wrong in base says nothing of the change."""
    found = []
    for side, run in zip(("base", "head"), runs, strict=True):
        lost = [line for line in judge(run).lines if line.startswith(("DAMAGED", "INCOMPLETE"))]
        found += [f"{side}: {line}" for line in lost]
    return found


def _is_selected(record: Record, selection: Selection) -> bool:
    from reports.records.cell import short_dtype

    cell = record.cell
    return (
        (not selection.operators or cell.operator in selection.operators)
        # Of two separate sessions, ratios to the reference are compared.
        and (not selection.backends or cell.backend in (*selection.backends, "jnp"))
        and (not selection.dtypes or short_dtype(cell.dtype) in map(short_dtype, selection.dtypes))
        and (not selection.sizes or cell.size in selection.sizes)
    )


def _read(path: Path) -> RunFile:
    run = load_run(path)
    if not run.records:
        raise RunUnreadable(f"{path}: holds no record. Record the run again.")
    return run


def _say(options: argparse.Namespace, decision: GateDecision) -> None:
    words = {Exit.FINE: "passes", Exit.WRONG: "fails", Exit.COULD_NOT_RUN: "could not decide"}
    for line in decision.lines:
        print(visible(f"{options.prog}: {line}"), file=sys.stderr)
    print(f"{options.prog}: {words[decision.exit]}", file=sys.stderr)
