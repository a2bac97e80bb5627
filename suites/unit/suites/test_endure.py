"""Trials of endurance: they count every call, find wrong kernels, and tell how a process ended."""

import contextlib
import gc
import io
import random
import subprocess
from pathlib import Path

import jax
import msgspec
import numba
import numpy as np
import pytest

from bridge import numba_kernel
from reports import Status, find_run, load_run
from reports.options import Exit
from suites.dispatch.path import CallPath, custom_call
from suites.endurance import call_trials, thread_trials, trial_process
from suites.endurance.call_trials import endure_calls
from suites.endurance.kernel_trials import endure_kernels
from suites.endurance.trial import KINDS, SUBJECTS, EnduranceTrial, TrialError
from suites.endurance.trial_process import run_trial
from suites.sessions.commands.command_line import main


@pytest.fixture
def thaws():
    """Lets garbage collection look at old objects again."""
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("thaws")
def test_a_trial_makes_all_of_its_calls():
    found = endure_calls(EnduranceTrial("calls", "operator", "cpu", count=30_000))
    assert found.done == 30_000
    assert len(found.samples) == call_trials.SAMPLES + 1


@pytest.mark.usefixtures("thaws")
def test_a_trial_finds_calls_that_are_wrong_or_missing(monkeypatch):
    @numba.njit
    def adds_two(x, y, out):
        for i in range(out.size):
            out[i] = x[i] + 2 * y[i]

    wrong = numba_kernel(adds_two, jax.ShapeDtypeStruct((16,), "float32"))
    for call, marker, message in (
        (wrong, custom_call("bridge_.*"), "gave .* expected 200"),
        (lambda x, y: x + y, custom_call("bridge_.*"), "0 calls in the loop"),
    ):
        path = CallPath(call, call, marker)
        monkeypatch.setattr(call_trials, "_path", lambda *_, path=path: path)
        with pytest.raises(TrialError, match=message):
            endure_calls(EnduranceTrial("calls", "numba", "cpu", count=20_000))


@pytest.mark.usefixtures("thaws")
@pytest.mark.parametrize("subject", ["operator", "shapes"])
def test_a_trial_uses_all_of_its_kernels(subject):
    found = endure_kernels(EnduranceTrial("kernels", subject, "cpu", count=2))
    assert [sample.count for sample in found.samples] == [0, 1, 2]


def test_threads_call_trace_register_release_and_export_at_once():
    result, said = run_trial(EnduranceTrial("threads", "workqueue", "cpu", seconds=1.0, limit_s=200))
    assert result.status is Status.PASSED, f"{result.reason}\n{said}"
    assert result.endurance is not None
    assert result.endurance.done > 16


@pytest.mark.parametrize("subject", ["workqueue", "xla"])
def test_threads_that_only_call_take_no_memory(subject):
    result, said = run_trial(EnduranceTrial("thread-calls", subject, "cpu", seconds=2.0, limit_s=200))
    assert result.status is Status.PASSED, f"{result.reason}\n{said}"
    assert result.endurance is not None
    assert result.endurance.allowed_bytes == thread_trials.ALLOWED_BYTES


def test_a_loop_on_a_layer_fails_a_trial_of_loops_on_threads_of_xla(monkeypatch):
    more_threads = trial_process._variables(EnduranceTrial("thread-calls", "workqueue", "cpu"))
    monkeypatch.setattr(trial_process, "_variables", lambda trial: more_threads)
    result, _ = run_trial(EnduranceTrial("thread-calls", "xla", "cpu", seconds=2.0, limit_s=200))
    assert result.status.failed
    assert "elements are wrong" in str(result.reason)


def test_what_threads_call_was_compiled_before(caplog):
    (device, *_), start = jax.devices("cpu"), np.arange(thread_trials.SIZE, dtype=np.float32)
    x, ops = jax.device_put(start, device), thread_trials._ops("cpu")

    def compiled():
        caplog.clear()
        with jax.log_compiles(), jax.default_device(device):
            for op in ops:
                for step in thread_trials._CALLS:
                    assert step(x, op, random.Random(0)) > 0
        return [record.message for record in caplog.records if "ompil" in record.message or "tracing" in record.message]

    assert compiled()
    assert compiled() == []


def test_a_trial_that_takes_too_long_ends_and_shows_its_stacks():
    result, said = run_trial(EnduranceTrial("kernels", "numba", "cpu", count=10_000, limit_s=0.5))
    assert result.status is Status.TIMEOUT
    assert "not done after 0.5 s" in str(result.reason)
    assert "most recent call first" in str(result.reason)
    assert "trial_process.py" in said


@pytest.mark.parametrize(
    ("code", "status", "reason"),
    [
        (0, Status.PASSED, None),
        (-11, Status.CRASHED, "the trial found nothing wrong, but then: the process ended with signal SIGSEGV. oh"),
        (None, Status.TIMEOUT, "the trial found nothing wrong, but then: not done after 5 s. oh"),
    ],
)
def test_a_process_must_also_end_well(code, status, reason, monkeypatch):
    def run(command, timeout, **_):
        Path(command[-1]).write_bytes(msgspec.json.encode(trial_process.Outcome(Status.PASSED)))
        if code is None:
            raise subprocess.TimeoutExpired(command, timeout, stderr=b"oh")
        return subprocess.CompletedProcess(command, code, stderr=b"oh")

    monkeypatch.setattr(trial_process.subprocess, "run", run)
    result, _ = run_trial(EnduranceTrial("calls", "numba", "cpu", count=1, limit_s=5))
    assert (result.status, result.reason) == (status, reason)


def test_a_process_that_a_signal_ends_has_crashed():
    lost = trial_process._lost(
        EnduranceTrial("calls", "numba", "cpu", count=1), -11, "Fatal Python error: Segmentation fault"
    )
    assert lost.status is Status.CRASHED
    assert lost.reason == "the process ended with signal SIGSEGV. Fatal Python error: Segmentation fault"


def test_the_command_records_its_trials_and_shows_them(tmp_path):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        arguments = ["--trial", "calls", "--backend", "numba", "--calls", "10000", "--runs", str(tmp_path)]
        code = main(["endure", *arguments, "--width", "200"])
    assert code == Exit.FINE, printed.getvalue()
    (record,) = load_run(find_run("latest", tmp_path)).records
    assert (record.cell.operator, record.cell.backend, record.cell.params) == ("calls", "numba", {"calls": 10_000})
    assert record.endurance is not None
    assert record.endurance.done == 10_000
    assert "Endurance on cpu" in printed.getvalue()


def test_an_unknown_trial_is_named(capsys):
    assert main(["endure", "--trial", "calls", "--backend", "fortran"]) == Exit.COULD_NOT_RUN
    assert (
        "--backend fortran: there is none of this name. Known: numba, operator, warp-native." in capsys.readouterr().err
    )


def test_every_kind_of_trial_has_subjects_on_each_platform():
    assert {*SUBJECTS} == {(kind, platform) for kind in KINDS for platform in ("cpu", "cuda")}
