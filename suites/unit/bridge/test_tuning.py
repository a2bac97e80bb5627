"""Checks how ``tune`` chooses a backend, remembers it, and makes later calls use it."""

import ctypes
import functools

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest

from bridge import BackendError, ParameterError, XLACustomKernel, use_backend
from bridge.cached_files import VARIABLE
from bridge.operator import tuning, winners
from bridge.operator.operator_call import Candidate
from bridge.operator.winners import FOLDER_VARIABLE, content_of
from suites.unit.processes import output

Spec = jax.ShapeDtypeStruct
X = jnp.arange(1.0, 5.0)
OUT = Spec((4,), np.float32)


def fast(outs, factor=2.0):
    # A set of strings has another order in each process.
    return lambda x: x if factor in {"none", "nothing", "zero"} else factor * x


def slow(outs, factor=2.0, turns=40000):
    # Four turns bring four elements back to their places, so only the time differs.
    return lambda x: factor * jax.lax.fori_loop(0, turns, lambda _, y: jnp.roll(y, 1), x)


def wrong(outs, factor=2.0):
    return lambda x: factor * x + 1e-3


def failing(outs, **_):
    raise RuntimeError("no such instruction")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache folder, and few samples, which are enough to tell very different times apart."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)
    monkeypatch.delenv("KERNEL_BRIDGE_BACKEND", raising=False)
    monkeypatch.setattr(tuning, "ROUNDS", 5)
    return tmp_path / "cache"


def operator():
    """``slow`` is the default, so that tuning changes something. It finds on disk what an equal one has found."""
    op = XLACustomKernel("scale", outs=lambda x, **_: Spec(x.shape, x.dtype))
    op.def_kernel("slow", "cpu", slow)
    op.def_kernel("fast", "cpu", fast)
    return op


def chosen(op, x=X, **arguments):
    return op.explain(x, **arguments)["cpu"].backend


def files(cache):
    return sorted(cache.rglob("*.txt"))


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
        again = operator()
        change(op), change(again)
        assert chosen(op) == chosen(again) == expected

    def test_other_versions_are_another_key(self, monkeypatch):
        operator().tune(X)
        monkeypatch.setattr(winners, "_versions", lambda: {"jax": "0.0.1"})
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

    def test_a_damaged_file_costs_a_warning(self, cache):
        operator().tune(X)
        for damage in (b"", b"\xff\xfe", b"no such backend"):
            files(cache)[0].write_bytes(damage)
            with pytest.warns(RuntimeWarning, match="remembered winner .* is damaged"):
                assert chosen(operator()) == "slow"

    def test_a_folder_that_cannot_be_used_costs_a_warning(self, tmp_path, monkeypatch):
        (tmp_path / "file").write_text("")
        monkeypatch.setenv(VARIABLE, str(tmp_path / "file"))
        op = operator()
        with pytest.warns(RuntimeWarning, match="scale: the winner of tuning counts in this process only"):
            op.tune(X)
        assert chosen(op) == "fast"


@numba.njit
def kernel(x, out):
    out[:] = x


@numba.njit
def other_kernel(x, out):
    out[:] = x + 1


def closing_over(value):
    return lambda outs: value


class TestContent:
    """What tells generators apart across processes."""

    @pytest.mark.parametrize(
        ("one", "other"),
        {
            "bytecode": (lambda outs: jnp.sin, lambda outs: jnp.cos),
            "a constant": (lambda outs: 1, lambda outs: 2),
            "an inner function": (lambda outs: lambda x: x + 1, lambda outs: lambda x: x + 2),
            "a default": (lambda outs, n=1: n, lambda outs, n=2: n),
            "a closure": (closing_over(1), closing_over(2)),
            "a kernel": (closing_over(kernel), closing_over(other_kernel)),
            "a partial": [functools.partial(slow, turns=n) for n in (1, 2)],
            "a program": (jax.jit(lambda outs: 1), jax.jit(lambda outs: 2)),
        }.values(),
    )
    def test_they_differ_in(self, one, other):
        assert content_of(one) == content_of(one) != content_of(other)


def test_another_process_uses_the_winner_unless_it_is_one_of_several(monkeypatch):
    operator().tune(X)
    program = "from suites.unit.bridge.test_tuning import X, chosen, operator; print(chosen(operator()))"
    assert output("-c", program) == "fast"
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    assert chosen(operator()) == "slow"
    with pytest.raises(BackendError, match=r"scale: tune was called in process 0 of 2, .* call set_default"):
        operator().tune(X)
