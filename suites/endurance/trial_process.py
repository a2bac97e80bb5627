"""Runs one trial in a process of its own, which shows the stacks of all threads if it crashes or takes too long.

The process is started as ``python -m suites.endurance.trial_process TRIAL RESULT``: a trial as JSON, and the file for
what it found.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import msgspec

from reports import CellResult, Endurance, Status
from reports.pages.grown import leak
from suites.bench.parent_process import end_with_parent, lifeline
from suites.checks.judging.blame import status_of
from suites.checks.judging.reasons import described
from suites.endurance.trial import THREADED, XLA_THREADS, EnduranceTrial, TrialError, TrialUnavailableError

_DEVICES = 4
"""CPU devices of a trial with threads."""

_GRACE_S = 30.0
"""Seconds beyond the limit of a trial after which its process is killed: it should have ended itself."""

_TIMEOUT = "Timeout ("
"""What faulthandler writes before the stacks of a process that took too long."""

_LAST = 2000
"""Characters of what the process wrote that the reason of a failure keeps."""

_HOMES = {
    "calls": ("suites.endurance.call_trials", "endure_calls"),
    "kernels": ("suites.endurance.kernel_trials", "endure_kernels"),
    **dict.fromkeys(THREADED, ("suites.endurance.thread_trials", "endure_threads")),
}


class Outcome(msgspec.Struct, frozen=True):
    """What a trial found, as its process writes it.

    Attributes:
        status: How it ended.
        reason: Why it did not pass.
        endurance: Its samples, if it came to its end.
    """

    status: Status
    reason: str | None = None
    endurance: Endurance | None = None


def run_trial(trial: EnduranceTrial) -> tuple[CellResult, str]:
    """Runs a trial in a fresh process; returns its result, and what the process wrote to its standard error."""
    with tempfile.TemporaryDirectory() as folder, lifeline() as stdin:
        file = Path(folder, "outcome.json")
        command = [
            sys.executable, "-P", "-m", "suites.endurance.trial_process",
            msgspec.json.encode(trial).decode(), str(file),
        ]  # fmt: skip
        try:
            ended = subprocess.run(
                command, env=_variables(trial), stdin=stdin, stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE, timeout=trial.limit_s + _GRACE_S, check=False,
            )  # fmt: skip
            code, written = ended.returncode, ended.stderr
        except subprocess.TimeoutExpired as error:
            code, written = None, error.stderr or b""
        said = written.decode(errors="replace")
        if not file.exists():
            outcome = _lost(trial, code, said)
        else:
            outcome = msgspec.json.decode(file.read_bytes(), type=Outcome)
            if code != 0 and not outcome.status.failed:  # also its end is a part of the trial
                lost = _lost(trial, code, said)
                outcome = msgspec.structs.replace(
                    lost, reason=f"the trial found nothing wrong, but then: {lost.reason}"
                )
    result = CellResult(
        cell=trial.cell, shapes=[], dtypes=[], seed=0, status=outcome.status, reason=outcome.reason,
        endurance=outcome.endurance,
    )  # fmt: skip
    return result, said


def _variables(trial: EnduranceTrial) -> dict[str, str]:
    """Returns the environment of the process of a trial."""
    found = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]),
        # The memory of XLA's pool shows only if the pool takes it when it needs it.
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    }
    if trial.kind in THREADED:
        flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={_DEVICES}"
        # XLA has a thread for each processor or device. Only loops for more threads run on the threading layer.
        on_xla = trial.subject == XLA_THREADS
        threads = _DEVICES if on_xla else max(os.cpu_count() or 1, _DEVICES) + 1
        layer = "workqueue" if on_xla else trial.subject
        found |= {"NUMBA_THREADING_LAYER": layer, "NUMBA_NUM_THREADS": str(threads), "XLA_FLAGS": flags.strip()}
    return found


def _lost(trial: EnduranceTrial, code: int | None, said: str) -> Outcome:
    """Says how a process ended that wrote no outcome."""
    last = said.strip()[-_LAST:]
    if code is None or _TIMEOUT in said:
        stacks = said[said.find(_TIMEOUT) :][:_LAST] if _TIMEOUT in said else last
        return Outcome(Status.TIMEOUT, f"not done after {trial.limit_s:g} s. {stacks}".strip())
    ending = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    return Outcome(Status.CRASHED, f"the process ended with {ending}. {last}".strip())


def main(text: str, file: str) -> int:
    """Runs the trial that is given as JSON, and writes its outcome; returns the exit code."""
    trial = msgspec.json.decode(text, type=EnduranceTrial)
    end_with_parent()
    faulthandler.enable()
    faulthandler.dump_traceback_later(trial.limit_s, exit=True)
    module, name = _HOMES[trial.kind]
    endure: Callable[[EnduranceTrial], Endurance] = getattr(import_module(module), name)
    try:
        endurance = endure(trial)
        grown = leak(endurance)
        outcome = Outcome(Status.LEAKED if grown else Status.PASSED, grown, endurance)
    except TrialUnavailableError as error:
        outcome = Outcome(Status.SKIPPED, str(error))
    except TrialError as error:
        outcome = Outcome(Status.WRONG_VALUE, str(error))
    except Exception as error:
        outcome = Outcome(status_of(error), described(error))
    faulthandler.cancel_dump_traceback_later()
    # The file appears whole or not at all.
    scratch = Path(f"{file}.new")
    scratch.write_bytes(msgspec.json.encode(outcome))
    scratch.replace(file)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
