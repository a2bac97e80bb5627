"""Implements ``compare``: of two recorded runs, or of two revisions that it times; ``--gate`` decides by a policy."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from reports import Record, RunFile, judge
from reports.cli import comparison_page, read_recorded, select_pair
from reports.errors import PolicyError
from reports.gate.policy import FILE, TABLE, Policy, find_policy, parse_policy
from reports.gate.ruling import Effect, GateDecision, decide_gate
from reports.options import Exit
from reports.pages.alike import are_interleaved
from reports.pages.compare import Comparison
from reports.pages.compare import compare as compare_records
from reports.records.run_writer import require_writable
from reports.records.store import new_run_id, run_path
from reports.render.visible import visible
from reports.statistics.decision import MANY
from reports.statistics.verdict_codes import Code, Verdict
from suites.bench.screen import Screen
from suites.cells.selection import Selection
from suites.compare.names import TwoRevisions, TwoRuns, resolve_names, split_names
from suites.compare.revisions.repository import SHORT
from suites.compare.revisions.revision import Revision
from suites.compare.revisions.revision_pair import RevisionPair, prepare_revisions
from suites.errors import RevisionError
from suites.processes.interruption import INTERRUPTION

if TYPE_CHECKING:
    from suites.compare.interleaving import RunPair


def compare(options: argparse.Namespace) -> Exit:
    """Compares the runs or the revisions that the options name, and shows the table, or the decision of the gate.

    Raises:
        PolicyError: The policy is invalid, or names no base.
        RevisionError: A name is neither a run nor a revision, or a revision cannot be timed.
        ReportError: A run cannot be read, or nothing can be recorded.
    """
    policy, home = find_policy(Path.cwd()) if options.gate else (Policy(), Path.cwd())
    base, head, files = split_names(options.names or [_base(policy, home, gates=options.gate)])
    selection = _selected(options, files, policy, home)
    pair = resolve_names(base, head, selection, options.runs)
    notes: list[str] = []
    if isinstance(pair, TwoRuns):
        if files:
            raise RevisionError(f"two runs are compared as they were recorded: leave {files[0]} out.")
        runs = read_recorded(pair.base), read_recorded(pair.head)
    else:
        require_writable(run_path(new_run_id(), options.runs))  # before the measurement takes minutes
        pair = _change(pair, base, head, notes) if options.gate else pair
        measured, policy = _measure(pair, selection, options)
        runs = measured.base, measured.head
        notes += measured.notes
    if options.gate:
        recorded = {str(run.headers[-1].device.platform) for run in runs}
        platforms = recorded if isinstance(pair, TwoRuns) else {options.device}
        decision = decide(policy, runs, options, platforms=platforms)
        from reports.gate.gate_page import gate_page

        page, code = gate_page(decision, runs[0].headers[-1], runs[1].headers[-1], notes), decision.exit
        words = {Exit.FINE: "passes", Exit.WRONG: "fails", Exit.COULD_NOT_RUN: "could not decide"}
        lines = [*decision.lines, *decision.notes, words[code]]
    else:
        page, code, lines = comparison_page(runs, options, notes)
    from reports.render.page import show

    show(page, options)
    if isinstance(pair, TwoRevisions):
        print(f"recorded in {measured.base.path} (base) and {measured.head.path} (head)", file=sys.stderr)
    for line in [*notes, *lines]:
        print(visible(f"{options.prog}: {line}"), file=sys.stderr)
    return code


def decide(
    policy: Policy, runs: tuple[RunFile, RunFile], options: argparse.Namespace, *, platforms: set[str]
) -> GateDecision:
    """Returns the decision of the gate on two runs."""
    base, head = select_pair(runs, options)
    sessions = not are_interleaved(runs[0].headers[-1], runs[1].headers[-1])
    doubts = [
        f"{label}: {line}"
        for label, run in zip(("base", "head"), runs, strict=True)
        for line in judge(run).lines
        if line.startswith(("DAMAGED", "INCOMPLETE"))  # a kernel that was wrong in base is no fault of the change
    ]
    comparisons = _comparisons(policy, base, head, sessions=sessions)
    today = datetime.now(UTC).date()
    return decide_gate(policy, comparisons, today=today, sessions=sessions, platforms=platforms, doubts=doubts)


def _comparisons(
    policy: Policy, base: Sequence[Record], head: Sequence[Record], *, sessions: bool = False
) -> list[Comparison]:
    return compare_records(
        base, head, smallest={str(name): share for name, share in policy.smallest.items()},
        large={str(name): share for name, share in policy.large.items()}, q=policy.false_discovery_rate,
        interleaved=not sessions,
    )  # fmt: skip


def undecided(policy: Policy, base: Sequence[Record], head: Sequence[Record], *, gates: bool) -> list[str]:
    """Returns the cells that more processes could decide: all unsure ones, or those on which the gate depends.

    A small difference that is still unsure after many processes is not worth more.
    """
    comparisons = _comparisons(policy, base, head)
    if gates:
        decision = decide_gate(policy, comparisons, today=datetime.now(UTC).date())
        return [each.comparison.cell.id for each in decision.rulings if each.effect in (Effect.UNSURE, Effect.SUSPECT)]
    unsure = [one for one in comparisons if one.verdict is Verdict.UNSURE]
    return [one.cell.id for one in unsure if one.code is not Code.SMALL or min(one.processes or (0,)) < MANY]


def _base(policy: Policy, home: Path, *, gates: bool) -> str:
    if not gates:
        raise RevisionError("name two runs, such as previous latest, or a revision, such as HEAD~1.")
    if policy.base is None:
        raise PolicyError(
            f'no base to compare with. Name a revision, such as origin/main, or set base = "origin/main" in [{TABLE}]'
            f" of {home / FILE}."
        )
    return policy.base


def _selected(options: argparse.Namespace, files: tuple[str, ...], policy: Policy, home: Path) -> Selection:
    own = tuple(os.path.relpath(home / name) if name.endswith(".py") else name for name in policy.operators)
    sources = files or own
    return replace(Selection.of(options), sources=sources, profile=options.profile or "quick")


def _change(pair: TwoRevisions, base: str, head: str | None, notes: list[str]) -> TwoRevisions:
    """Returns the pair with the commit where the branch began as base: later commits of others are not judged."""
    fork = pair.repository.merge_base(pair.base, pair.head)
    if fork != pair.base:
        notes.append(f"base: {fork[:SHORT]}, where {head or 'HEAD'} left {base}, which is at {pair.base[:SHORT]} now")
    if fork == pair.head:
        raise RevisionError(
            f"head ({pair.head[:SHORT]}) has no commit that {base} does not have: there is no change to judge. Name an"
            " older base, such as HEAD~1."
        )
    return replace(pair, base=fork)


def _measure(pair: TwoRevisions, selection: Selection, options: argparse.Namespace) -> tuple[RunPair, Policy]:
    """Makes both revisions ready to run and times them; returns the runs, and the policy in force.

    Raises:
        RevisionError: A revision cannot be made ready, or cannot be timed.
    """
    screen = Screen()

    def say(text: str) -> None:
        screen.print(f"kernel-bridge: {text}")

    with (
        INTERRUPTION.raises(),
        tempfile.TemporaryDirectory(prefix="kernel-bridge-", ignore_cleanup_errors=True) as name,
    ):
        scratch = Path(name).resolve()
        say(f"comparing {pair.base[:SHORT]} (base) with {pair.head[:SHORT]} (head) on {selection.device}")
        with screen:
            screen.show("loading both revisions")
            revisions = prepare_revisions(
                pair.repository, pair.base, pair.head, selection, scratch, ignores_changes=pair.ignores_changes
            )
            for note in revisions.notes:
                say(f"note: {note}")
            from suites.bench.command import PROCESSES  # late: what is refused before needs neither JAX nor a kernel
            from suites.compare.interleaving import measure

            policy = _in_force(revisions) if options.gate else Policy()
            minutes = options.minutes or policy.minutes
            say(
                f"timing {options.processes or PROCESSES} processes of each revision side by side, then more until"
                f" every cell is decided or {minutes:g} minutes are over; each kernel is checked first"
            )
            measured = measure(
                revisions, selection, seconds=60 * minutes, processes=options.processes, timeout_s=options.timeout,
                undecided=lambda base, head: undecided(policy, base, head, gates=options.gate), runs=options.runs,
                screen=screen,
            )  # fmt: skip
            return measured, policy


def _in_force(revisions: RevisionPair) -> Policy:
    """Returns the policy of the base with the exceptions of the head, so that no change loosens its own limits."""
    return msgspec.structs.replace(_policy_of(revisions.base), allow=_policy_of(revisions.head).allow)


def _policy_of(revision: Revision) -> Policy:
    for folder in [revision.folder, *revision.folder.parents]:
        file = folder / FILE
        if file.is_file():
            policy = parse_policy(file.read_text(encoding="utf-8"), f"{FILE} of {revision}")
            if policy is not None:
                return policy
        if folder == revision.tree:
            break
    return Policy()
