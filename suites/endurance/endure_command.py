"""Implements ``endure``: runs the trials that the options choose, records them and prints their table."""

from __future__ import annotations

import argparse
import os
import sys

from rich.console import Console

from reports import RunWriter, judge, load_run, run_path
from reports.options import Exit, again
from reports.pages.endurance_table import PROFILE
from reports.pages.run_page import page_of
from reports.render.page import show
from reports.render.visible import visible
from suites.bench import run_header
from suites.cells.selection import Selection, SelectionError
from suites.endurance.trial import KINDS, SUBJECTS, THREADED, EnduranceTrial
from suites.endurance.trial_process import run_trial


def endure(options: argparse.Namespace) -> Exit:
    """Runs the trials, each in a fresh process.

    Returns:
        WRONG if a trial failed or leaked; COULD_NOT_RUN if not all could be made; else FINE.

    Raises:
        SelectionError: No trial fits the options, or there is no such device.
        ReportError: The run or the file of ``--summary`` cannot be written.
    """
    trials = trials_of(options)
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # this process must leave the GPU to the trials
    try:
        header = run_header.header(Selection(device=options.device), PROFILE, keeps_pages=False)
    except RuntimeError as error:
        raise SelectionError(f"endure cannot run on {options.device}: {str(error).splitlines()[0]}") from error
    with RunWriter(run_path(header.run_id), header) as writer:
        writer.begin([], [trial.cell for trial in trials])
        with Console(stderr=True).status("starting") as status:
            for number, trial in enumerate(trials, 1):
                words = SUBJECTS[trial.kind, trial.platform][trial.subject]
                status.update(f"{trial.kind}: {words} ({number} of {len(trials)})")
                result, said = run_trial(trial)
                writer.append(result)
                if result.status.failed and said:
                    for line in said.splitlines():
                        print(visible(line), file=sys.stderr)
        writer.end(int(judge(load_run(writer.path), has_ended=True).exit))
    recorded = load_run(writer.path)
    judgement = judge(recorded)
    show(page_of(recorded.records, doubts=judgement.lines), options)
    count = len(recorded.records)
    print(f"{count} trials, recorded in {writer.path}; show them again: {again('show')}", file=sys.stderr)
    return judgement.exit


def trials_of(options: argparse.Namespace) -> list[EnduranceTrial]:
    """Returns the trials that the options choose: by default all of the device.

    Raises:
        SelectionError: No trial has this name.
    """
    kinds = options.trial or KINDS
    known = [
        EnduranceTrial(
            kind, subject, options.device,
            count={"calls": options.calls, "kernels": options.kernels}.get(kind, 0),
            seconds=options.seconds if kind in THREADED else 0.0,
            limit_s=options.timeout,
        )
        for kind in kinds
        for subject in SUBJECTS.get((kind, options.device), {})
    ]  # fmt: skip
    unknown = sorted(set(options.backend or ()) - {trial.subject for trial in known})
    if unknown:
        names = ", ".join(dict.fromkeys(trial.subject for trial in known))
        raise SelectionError(f"--backend {unknown[0]}: there is none of this name. Known: {names}.")
    return [trial for trial in known if not options.backend or trial.subject in options.backend]
