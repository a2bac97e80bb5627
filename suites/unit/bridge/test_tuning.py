"""Checks how ``tune`` chooses a backend, and makes later calls use it."""

import ctypes
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bridge import BackendError, ParameterError, XLACustomKernel, use_backend
from bridge.operator import tuning
from bridge.operator.operator_call import Candidate

Spec = jax.ShapeDtypeStruct
X = jnp.arange(1.0, 5.0)
OUT = Spec((4,), np.float32)


def fast(outs, factor=2.0):
    return lambda x: factor * x


def slow(outs, factor=2.0, turns=40000):
    # Four turns bring four elements back to their places, so only the time differs.
    return lambda x: factor * jax.lax.fori_loop(0, turns, lambda _, y: jnp.roll(y, 1), x)


def wrong(outs, factor=2.0):
    return lambda x: factor * x + 1e-3


def failing(outs, **_):
    raise RuntimeError("no such instruction")


@pytest.fixture(autouse=True)
def few_samples(monkeypatch):
    """They are enough to tell very different times apart."""
    monkeypatch.delenv("KERNEL_BRIDGE_BACKEND", raising=False)
    monkeypatch.setattr(tuning, "ROUNDS", 5)


def operator():
    """``slow`` is the default, so that tuning changes something."""
    op = XLACustomKernel("scale", outs=lambda x, **_: Spec(x.shape, x.dtype))
    op.def_kernel("slow", "cpu", slow)
    op.def_kernel("fast", "cpu", fast)
    return op


def chosen(op, x=X, **arguments):
    return op.explain(x, **arguments)["cpu"].backend


class TestTune:
    def test_calls_like_this_one_use_the_fastest_right_backend(self):
        op = operator()
        assert op(X)[0] == 2
        outcome = op.tune(X)
        assert {trial.backend: trial.status for trial in outcome.trials} == {"slow": "slower", "fast": "chosen"}
        assert "cpu: fast" in str(jax.make_jaxpr(lambda x: op(x))(X))
        np.testing.assert_array_equal(op(X), 2 * X)
        assert str(op.explain(OUT)["cpu"]) == "cpu: fast (tuned)"
        op.tune(X, factor=2.0)
        others = {"parameter": {"factor": 3.0}, "type of a parameter": {"factor": 2}}
        others |= {"shape": {"x": jnp.ones(5)}, "dtype": {"x": jnp.ones(4, int)}}
        assert {case: chosen(op, **call) for case, call in others.items()} == dict.fromkeys(others, "slow")

    def test_wrong_and_failing_backends_never_win(self):
        op = operator()
        op.def_kernel("wrong", "cpu", wrong, asdefault=True)
        op.def_kernel("failing", "cpu", failing)
        outcome = op.tune(X)
        assert outcome.compared_with == "slow"
        op.def_jnp_kernel(slow)
        outcome = op.tune(X)
        assert (outcome.compared_with, outcome.chosen.backend) == ("jnp", "fast")
        trials = {trial.backend: trial for trial in outcome.trials}
        assert (trials["wrong"].status, trials["wrong"].microseconds) == ("wrong", None)
        assert "result 0: relative error above" in trials["wrong"].reason
        assert (trials["failing"].status, trials["failing"].reason) == ("failed", "RuntimeError: no such instruction")
        with pytest.raises(BackendError, match="no candidate gives a right result"):
            op.tune(X, backends=["wrong"])
        assert op.tune(X, rtol=0.01, backends="wrong").chosen.backend == "wrong"

    def test_the_default_is_kept_unless_another_is_clearly_faster(self):
        fastest, default = (Candidate("cpu", name, fast) for name in ("fastest", "default"))

        def statuses(*samples_s):
            pairs = zip((fastest, default), samples_s, strict=True)
            entrants = [tuning._Entrant(candidate, samples_s=taken) for candidate, taken in pairs]
            return [(trial.status, trial.reason) for trial in tuning._judge(entrants, default)]

        assert statuses([1.0, 1.1, 1.2], [1.1, 1.2, 1.3]) == [
            ("slower", "not clearly faster than the default"),
            ("chosen", None),
        ]
        assert statuses([1.0, 1.1, 1.2], [2.0, 2.1, 2.2]) == [("chosen", None), ("slower", None)]

    def test_a_kernel_that_changes_its_inputs_is_an_error(self):
        op, x = operator(), jnp.array(X)
        memory = (ctypes.c_float * 4).from_address(x.unsafe_buffer_pointer())

        def overwrite(_):
            memory[0] = 7.0
            return np.zeros(4, np.float32)

        op.def_kernel("overwriting", "cpu", lambda outs: lambda x: jax.pure_callback(overwrite, OUT, x))
        with pytest.raises(BackendError, match="overwriting changed its inputs"):
            op.tune(x)


class TestConfigurations:
    @pytest.fixture
    def op(self):
        op = XLACustomKernel("scale", outs=lambda x, **_: Spec(x.shape, x.dtype))
        op.def_kernel("turning", "cpu", slow, configurations={"long": {"turns": 40000}, "short": {"turns": 4}})
        op.def_kernel("one", "cpu", lambda outs: jnp.ones_like)
        return op

    def test_calls_contexts_defaults_and_tune_may_name_one(self, op):
        for backend, turns in [(None, 40000), ("turning", 40000), ("turning:short", 4), ("turning:long", 40000)]:
            text = str(jax.jit(functools.partial(op, backend=backend)).lower(X).as_text())
            assert f"dense<{turns}>" in text
        op.set_default("cpu", "turning:short")
        assert op.defaults == {"cpu": chosen(op)} == {"cpu": "turning:short"}
        with use_backend("warp", "turning:long"):
            assert chosen(op) == "turning:long"
        outcome = op.tune(X, backends=["turning"])
        assert [trial.backend for trial in outcome.trials] == ["turning:long", "turning:short"]
        assert chosen(op) == outcome.chosen.backend == "turning:short"
        op.def_kernel("turning", "cpu", slow)
        assert op.defaults == {"cpu": "turning"}

    def test_errors_name_them(self, op):
        with pytest.raises(BackendError, match=r"'turning:none' is not .* cpu: turning \(long, short\), one\)"):
            op(X, backend="turning:none")
        with pytest.raises(ParameterError, match="passes turns, but so does the configuration of turning:long"):
            op(X, turns=8)


class TestWinners:
    @pytest.mark.parametrize(
        ("change", "expected"),
        {
            "nothing": (lambda op: None, "fast"),
            "another kernel": (lambda op: op.def_kernel("fast", "cpu", wrong), "slow"),
            "a configuration": (lambda op: op.def_kernel("fast", "cpu", fast, configurations={"a": {}}), "slow"),
            "a further kernel": (lambda op: op.def_kernel("third", "cpu", fast), "slow"),
            "a default": (lambda op: op.set_default("cpu", "slow"), "slow"),
            "forget": (lambda op: op.forget(), "slow"),
        }.values(),
    )
    def test_one_counts_while_what_it_depends_on_is_the_same(self, change, expected):
        op = operator()
        op.tune(X)
        change(op)
        assert chosen(op) == expected
        assert chosen(operator()) == "slow"

    def test_a_named_or_preferred_backend_comes_first(self, monkeypatch):
        op = operator()
        op.tune(X)
        assert str(op.explain(X, backend="slow")["cpu"]) == "cpu: slow (named by the call)"
        with use_backend("slow"):
            assert str(op.explain(X)["cpu"]) == "cpu: slow (preferred by use_backend)"
        with use_backend("warp", "default"):
            assert chosen(op) == "fast"
        monkeypatch.setenv("KERNEL_BRIDGE_BACKEND", "slow")
        assert str(op.explain(X)["cpu"]) == "cpu: slow (preferred by KERNEL_BRIDGE_BACKEND)"


def test_tune_is_refused_in_one_of_several_processes(monkeypatch):
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    with pytest.raises(BackendError, match=r"scale: tune was called in process 0 of 2, .* call set_default"):
        operator().tune(X)
