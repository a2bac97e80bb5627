"""The scripts that measure the project itself: they count every call, and fail if something is wrong."""

import argparse

import numpy as np
import pytest

from suites.dispatch import __main__ as dispatch
from suites.dispatch.ways import WAYS
from suites.endurance import __main__ as endurance


def test_every_way_to_call_is_measured_in_every_situation_and_a_wrong_one_is_said(monkeypatch, capsys):
    kept = {name: WAYS["cpu"][name] for name in ("numba", "callback", "jnp")}
    monkeypatch.setitem(dispatch.WAYS, "cpu", {**kept, "cpp": ("wrong", lambda out: lambda x, y: x + 2 * y)})
    assert dispatch.main(["cpu", "2"]) == 1
    shown = capsys.readouterr().out
    assert len([line for line in shown.splitlines() if line.startswith("native handler, Numba")]) == 4
    assert len([line for line in shown.splitlines() if line.startswith("jnp.add")]) == 4
    assert "RUNTIME_ERROR cpp: ValueError: loop gave [101. 101. 101.], expected 51.0" in shown


def test_a_trial_finds_a_kernel_that_runs_too_often(monkeypatch):
    monkeypatch.setattr(endurance, "adder", lambda language, amount: lambda x: x + 2 * np.float32(amount))
    with pytest.raises(AssertionError, match=r"10000 calls gave \[20000\."):
        endurance.calls("numba", 20_000)


@pytest.mark.parametrize(("growth", "code"), [(1 << 20, 0), (1 << 23, 1)])
def test_growth_beyond_what_settles_is_a_leak(growth, code, monkeypatch, capsys):
    monkeypatch.setattr(endurance, "calls", lambda language, count: growth)
    options = argparse.Namespace(device="cpu", calls=100, kernels=1, seconds=1.0)
    assert endurance.run_trial("calls", "numba", options) == code
    assert ("LEAKED" in capsys.readouterr().out) == bool(code)


@pytest.mark.parametrize("language", ["numba", "warp"])
def test_a_hundred_thousand_calls_leave_nothing_behind(language):
    assert endurance.calls(language, 100_000) < endurance.ALLOWED_BYTES["calls"]


def test_ten_thousand_eager_calls_leave_nothing_behind():
    add, x = endurance.adder("numba", 1), np.zeros(endurance.SIZE, np.float32)
    grown = endurance._growth(lambda _: add(x).block_until_ready(), 10_000)
    assert grown < endurance.ALLOWED_BYTES["calls"] // 4
