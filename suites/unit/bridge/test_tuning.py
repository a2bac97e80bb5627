"""Checks how ``tune`` chooses a backend, and makes later calls use it."""

import contextlib
import ctypes
import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bridge import BackendError, Choices, ParameterError, SignatureError, XLACustomKernel, debug_mode, tune, use_backend
from bridge.debug.agreement import default_rtol, disagreement
from bridge.ffi.native.object_code import VARIABLE
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
        assert (outcome.compared_with, outcome.backend) == ("jnp", "fast")
        trials = {trial.backend: trial for trial in outcome.trials}
        assert (trials["wrong"].status, trials["wrong"].microseconds) == ("wrong", None)
        assert "(relative error above" in trials["wrong"].reason
        assert (trials["failing"].status, trials["failing"].reason) == ("failed", "RuntimeError: no such instruction")
        with pytest.raises(BackendError, match="no candidate gives a right result"):
            op.tune(X, backends=["wrong"])
        assert op.tune(X, rtol=0.01, backends="wrong").backend == "wrong"

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
        assert chosen(op) == outcome.backend == "turning:short"
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
            "a default": (lambda op: op.set_default("cpu", "slow"), "slow"),
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


def picky(outs, factor=2.0):
    """Right for the first turn of the loop below only."""
    return lambda x: jnp.where(x[0] == 1, factor, -factor) * x


def differentiable(op):
    op.def_vjp(lambda x, outs: (op(x), None), lambda saved, cotangents, outs: (op(cotangents[0], factor=3.0),))
    return jax.grad(lambda x: op(x).sum())


FUNCTIONS = {
    "eager": (lambda op: op, []),
    "jit": (lambda op: jax.jit(lambda x: op(op(x), factor=3.0)), [", factor=3.0"]),
    "the first turn of a loop": (lambda op: lambda x: jax.lax.scan(lambda c, _: (op(c), 0), x, length=3), []),
    "the branch that runs": (
        lambda op: lambda x: jax.lax.cond(x[0] > 0, op, lambda x: op(x, factor=3.0), x),
        [],
    ),
    "the largest batch": (lambda op: lambda x: (op(-x), jax.vmap(op)(x[None] * jnp.ones((3, 1)))), []),
    "derivative": (differentiable, [", factor=3.0"]),
    "no backend that is named": (lambda op: lambda x: (op(x), op(x[:2], backend="slow")), []),
}


class TestFunction:
    """``bridge.tune`` finds the calls that run in a function."""

    @pytest.mark.parametrize("case", FUNCTIONS)
    def test_the_arrays_that_reach_each_call_decide(self, case):
        (make, others), op = FUNCTIONS[case], operator()
        op.def_kernel("picky", "cpu", picky)
        op.def_kernel("fast", "cpu", failing)
        choices = tune(make(op), X)
        assert sorted(str(each.question) for each in choices.tunings) == [
            f"scale(float32[4]{each})" for each in sorted(["", *others])
        ]
        assert next(each.backend for each in choices.tunings if not each.question.parameters) == "picky"
        assert chosen(op) == "slow"

    def test_what_it_cannot_tune(self):
        op = operator()
        program = jax.jit(op).lower(X).compile()
        for function in (jnp.sin, program, functools.partial(op, backend="fast")):
            with pytest.raises(SignatureError, match="tune found no call of an operator that ran"):
                tune(function, X)


class TestChoices:
    @pytest.fixture
    def op(self):
        return operator()

    @pytest.fixture
    def choices(self, op):
        return tune(op, X)

    def test_a_program_counts_for_its_own_choices_only(self, op, choices):
        @jax.jit
        def function(x):
            ran.append(chosen(op, x))
            return op(x)

        ran = []
        for context in [contextlib.nullcontext(), choices, contextlib.nullcontext(), Choices.loads(choices.dumps())]:
            with context:
                np.testing.assert_array_equal(function(X), 2 * X)
        assert ran == ["slow", "fast"]

    def test_they_travel_as_json(self, op, choices):
        text = choices.dumps()
        row = {"operator": "scale", "arguments": ["float32[4]"], "results": ["float32[4]"], "parameters": {}}
        row |= {"platform": "cpu", "device_kind": jax.devices("cpu")[0].device_kind, "backend": "fast"}
        assert json.loads(text) == {"choices": [row]}
        with Choices.loads(text) as loaded:
            assert (loaded, chosen(op)) == (choices, "fast")
            assert chosen(operator()) == "fast"
            with use_backend("slow"):
                assert chosen(op) == "slow"
            with Choices.loads(text.replace("fast", "slow")):
                assert str(op.explain(X)["cpu"]) == "cpu: slow (tuned)"
            assert chosen(op) == "fast"
        elsewhere = text.replace(f'"device_kind": "{row["device_kind"]}"', '"device_kind": "another"')
        assert elsewhere != text
        with Choices.loads(elsewhere), Choices.loads(text.replace("scale", "other")):
            assert str(op.explain(X)["cpu"]) == "cpu: slow (the default)"

    def test_a_backend_that_is_not_registered_is_an_error(self, op, choices):
        message = r"scale: its choice for platform 'cpu' is 'gone', which is not registered .* slow, fast\). Tune again"
        with Choices.loads(choices.dumps().replace("fast", "gone")):
            with pytest.raises(BackendError, match=message):
                op(X)
            assert op(X, backend="slow")[0] == 2

    @pytest.mark.parametrize("text", ["{", "[]", '{"choices": [{}]}', '{"choices": [1]}', 3])
    def test_other_text_is_an_error(self, text):
        with pytest.raises(SignatureError, match=r"Choices.loads got .*, expected the text that Choices.dumps returns"):
            Choices.loads(text)

    def test_a_parameter_counts_by_its_text_without_addresses(self, op):
        def activation(x):
            return x

        op.def_kernel("slow", "cpu", lambda outs, act: slow(outs))
        op.def_kernel("fast", "cpu", lambda outs, act: fast(outs))
        text = tune(functools.partial(op, act=activation), X).dumps()
        assert " at " not in text
        with Choices.loads(text):
            assert chosen(op, act=activation) == "fast"


# The rule of agreement accepts rounding and refuses mistakes, alike in tune and debug_mode.


class TestRounding:
    """The tolerance is relative to each element, and follows the dtype."""

    @pytest.mark.parametrize("dtype", [np.float16, jnp.bfloat16, np.float32, np.float64, np.complex64])
    def test_rounding_is_right_and_more_is_wrong(self, dtype):
        truth = np.linspace(1, 2, 100).astype(dtype)
        unit = float(jnp.finfo(dtype).eps) / 2
        assert disagreement([(truth * (1 + 4 * unit)).astype(dtype)], [truth], [1]) is None
        assert disagreement([(truth * (1 + 60 * unit)).astype(dtype)], [truth], [1]) is not None

    def test_a_matrix_product_is_right_in_any_order(self):
        a, b = np.random.default_rng(0).normal(size=(2, 300, 300)).astype(np.float32)
        reordered = sum(np.multiply.outer(a[:, k], b[k]) for k in range(299, -1, -1))
        assert disagreement([reordered], [a @ b], [a.size, b.size]) is None

    def test_the_small_elements_beside_large_ones_count(self):
        truth = np.logspace(-20, 20, 100).astype(np.float32)
        got = np.where(truth < 1, 0, truth).astype(np.float32)
        assert "50 of 100 elements" in disagreement([got], [truth], [1])

    def test_zeros_say_nothing_about_the_size_of_results(self):
        truth = np.zeros(100, np.float32)
        truth[:5] = 1.0
        got = truth.copy()
        got[50:] += 1e-7
        assert disagreement([got], [truth], [1]) is None
        got[50] += 1e-3
        assert "at [50]" in disagreement([got], [truth], [1])
        assert disagreement([got], [truth], [1], rtol=0.01) is None


class TestOtherValues:
    @pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
    def test_nan_and_infinities_are_at_the_same_places(self, special):
        truth = np.array([1, special, 3], np.float32)
        assert disagreement([truth], [truth], [1]) is None
        assert f"at [1]: 2.0, expected {special}" in disagreement([np.array([1, 2, 3], np.float32)], [truth], [1])
        assert f"at [0]: {special}, expect" in disagreement([np.array([special] * 2 + [3], np.float32)], [truth], [1])

    @pytest.mark.parametrize(("got", "truth", "words"), [
        (np.arange(5) + (np.arange(5) == 3), np.arange(5), "1 of 5 elements differ, the first at [3]: 4, expected 3"),
        (np.zeros(1, np.float32), np.zeros(0, np.float32), "float32[1], expected float32[0]"),
    ])  # fmt: skip
    def test_integers_shapes_and_dtypes_are_equal(self, got, truth, words):
        assert disagreement([truth], [truth], [1]) is None
        assert disagreement([got], [truth], [1], rtol=1.0) == f"result 0: {words}"


@pytest.mark.parametrize(("dtype", "change", "is_right"), [("bfloat16", 0.5, True), ("float32", 30, False)])
def test_tune_and_debug_mode_accept_the_same_results(monkeypatch, tmp_path, dtype, change, is_right):
    """The change counts in tolerances. It is far from 1, for the device and the host may round differently."""
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    monkeypatch.setattr("bridge.operator.tuning.ROUNDS", 1)
    expected = jnp.array([1.0, 3.0, 0.0, 1.0], dtype)
    got = expected * jnp.asarray(1 + change * default_rtol(expected.dtype, [4]), dtype)
    op = XLACustomKernel("constant", outs=lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype))
    op.def_kernel("mine", "cpu", lambda outs: lambda x: x)
    op.def_jnp_kernel(lambda outs: lambda x: expected)
    for rtol, accepted in ((None, is_right), (1.0, True)):
        with contextlib.nullcontext() if accepted else pytest.raises(BackendError, match=r"mine: wrong"):
            op.tune(got, backends=["mine"], rtol=rtol)
        failed = pytest.raises(jax.errors.JaxRuntimeError, match="from those of jnp")
        with (
            contextlib.nullcontext() if accepted else failed,
            debug_mode(outputs=False, inputs=False, nan=False, rtol=rtol),
        ):
            jax.block_until_ready(op(got))
