"""Eager calls of operators find a compiled program, and never the program of another call."""

import copy
import pickle
import struct
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bridge import ParameterError, SignatureError, XLACustomKernel, debug_mode, use_backend
from bridge.operator import eager
from bridge.operator.tuning.winners import Winners

Spec = jax.ShapeDtypeStruct
X = jnp.arange(4, dtype=jnp.float32)


def scale(outs, factor=1.0, **_):
    return lambda x: (x * factor).astype(outs[0].dtype)


def operator(generator=scale, **options):
    op = XLACustomKernel("scale", **({"outs": lambda x, **_: Spec(x.shape, x.dtype)} | options))
    op.def_jnp_kernel(generator)
    return op


def programs(op):
    return op._programs.current[-1]


def test_a_repeated_call_traces_nothing():
    traced = []
    op = operator(lambda outs, **_: lambda x: traced.append(1) or x)
    for _ in range(5):
        op(X)
    op(X + 1)
    assert len(traced) == 1
    op(jnp.arange(5.0))  # another shape
    assert len(traced) == 2


def test_the_first_call_of_a_process_is_traced_once():
    traced = []
    op = operator(lambda outs, **_: lambda x: traced.append(1) or x)
    eager.concrete.clear()
    op(X), op(X)
    assert len(traced) == 1


@pytest.mark.parametrize(
    ("one", "two"),
    [(1, 1.0), (1, True), (0.0, -0.0), (1.0, np.float32(1)), ("1", 1), (None, False), ((1,), (1.0,)), (b"1", "1")],
)
def test_parameters_that_python_calls_equal_are_different_calls(one, two):
    op = operator(lambda outs, factor: lambda x: jnp.full(x.shape, 0.0 if repr(factor) == repr(one) else 1.0))
    for _ in range(3):
        assert op(X, factor=one).tolist() == [0.0] * 4
        assert op(X, factor=two).tolist() == [1.0] * 4


def test_nan_finds_its_program_again_and_another_nan_does_not():
    op = operator()
    (other,) = struct.unpack("=d", struct.pack("=Q", 0x7FF8_0000_0000_0001))
    for _ in range(4):
        op(X, factor=float("nan"))
    assert len(programs(op)) == 1
    op(X, factor=other)
    assert len(programs(op)) == 2


def test_the_outs_of_a_call_count():
    op = operator(outs=None)
    for _ in range(3):
        assert op(X, outs=Spec((4,), jnp.float32)).dtype == jnp.float32
        assert op(X, outs=Spec((4,), jnp.int32)).dtype == jnp.int32
        assert isinstance(op(X, outs=[Spec((4,), jnp.float32)]), list)
        assert isinstance(op(X, outs=(Spec((4,), jnp.float32),)), tuple)
        with pytest.raises(SignatureError, match="expected integers"):
            op(X, outs=Spec((4.0,), jnp.float32))
        with pytest.raises(SignatureError, match="outs is missing"):
            op(X)


def test_a_list_of_outs_may_change_afterwards():
    op, outs = operator(outs=None), [Spec((4,), jnp.float32)]
    op(X, outs=outs), op(X, outs=outs)
    outs[0] = Spec((4,), jnp.int32)
    assert op(X, outs=outs)[0].dtype == jnp.int32
    assert op(X.astype(jnp.int32), outs=[Spec((4,), jnp.float32)])[0].dtype == jnp.float32


def test_a_kernel_that_is_registered_later_runs_from_the_next_call_on():
    op = operator()
    assert op(X, factor=2.0)[1] == op(X, factor=2.0)[1] == 2
    op.def_jnp_kernel(lambda outs, **_: lambda x: x + 100)
    assert op(X, factor=2.0)[1] == 101


def test_a_rule_that_is_declared_later_counts_from_the_next_call_on():
    traced = []
    op = operator(lambda outs, **_: lambda x: traced.append(1) or x)
    op(X), op(X)
    op.def_jvp(lambda outs, **_: lambda primals, tangents: (primals, tangents))
    op(X), op(X)
    assert len(traced) == 2


def test_a_default_that_is_set_later_counts_from_the_next_call_on():
    op = operator()
    op.def_kernel("other", "cpu", lambda outs, **_: lambda x: x + 100)
    op.set_default("cpu", "jnp")
    assert op(X)[1] == op(X)[1] == 1
    op.set_default("cpu", "other")
    assert op(X)[1] == op(X)[1] == 101


def test_the_backend_counts_whoever_names_it(monkeypatch):
    op = operator()
    op.def_kernel("other", "cpu", lambda outs, **_: lambda x: x + 100)
    op.set_default("cpu", "jnp")
    for _ in range(3):
        assert op(X)[1] == 1
        assert op(X, backend="other")[1] == 101
        with use_backend("other"):
            assert op(X)[1] == 101
            assert op(X, backend="jnp")[1] == 1
        with monkeypatch.context() as patch:
            patch.setenv("KERNEL_BRIDGE_BACKEND", "other")
            assert op(X)[1] == 101
        assert op(X)[1] == 1


def test_rules_that_are_declared_later_count():
    op = operator()
    op(X), op(X)
    op.def_jvp(lambda primals, tangents, outs: (op(*primals), [7 * t for t in tangents]))
    assert jax.grad(lambda x: op(x).sum())(X).tolist() == [7.0] * 4
    assert op(X).tolist() == X.tolist()


def test_a_winner_of_tuning_counts_from_the_next_call_on(monkeypatch):
    op = operator()
    op.def_kernel("other", "cpu", lambda outs, **_: lambda x: x + 100)
    op.set_default("cpu", "jnp")
    assert op(X)[1] == op(X)[1] == 1
    found = type("Found", (), {"references": {"cpu": "other"}})
    monkeypatch.setattr(Winners, "find", lambda self, *args: found)
    assert op(X)[1] == 1  # the same winners
    op._winners.latest = {"key": None}
    assert op(X)[1] == 101


def test_debug_mode_checks_a_call_that_was_compiled_before(monkeypatch):
    op = operator(lambda outs, **_: lambda x: x * jnp.nan)
    op(X), op(X)
    with pytest.raises(Exception, match="NaN"), debug_mode():
        jax.block_until_ready(op(X))
    monkeypatch.setenv("KERNEL_BRIDGE_DEBUG", "nan")
    with pytest.raises(Exception, match="NaN"):
        jax.block_until_ready(op(X))


def test_errors_of_a_call_are_the_same_every_time():
    op = operator()
    for _ in range(3):
        op(X)
        with pytest.raises(SignatureError, match=r"argument 0 .* is a list"):
            op([X])
        with pytest.raises(ParameterError, match="not hashable"):
            op(X, factor=[1])
        with pytest.raises(SignatureError, match="outs contains 3"):
            op(X, outs=3)


def test_arrays_of_numpy_and_numbers_are_arguments_too():
    op = operator()
    for _ in range(3):
        assert op(np.arange(4, dtype=np.float32)).tolist() == X.tolist()
        assert op(2.0).tolist() == 2.0
        assert op(X).tolist() == X.tolist()
        with pytest.raises(SignatureError):
            op(np.array(["text"]))


def test_transformations_still_see_the_operator():
    op = operator()
    op(X), op(X)
    assert "xla_custom_kernel" in str(jax.make_jaxpr(lambda x: op(x))(X))
    assert "xla_custom_kernel" in str(jax.make_jaxpr(lambda: op(X))())
    assert jax.vmap(op)(jnp.stack([X, X])).shape == (2, 4)
    with jax.disable_jit():
        assert op(X).tolist() == X.tolist()


def test_copies_and_pickles_work_after_a_call():
    op = operator()
    op(X, factor=3.0), op(X, factor=3.0)
    assert copy.deepcopy(op)(X, factor=3.0)[1] == 3
    assert pickle.loads(pickle.dumps(op._programs)).current[-1] == {}


def test_programs_are_bounded(monkeypatch):
    monkeypatch.setattr(eager, "KEPT", 3)
    op = operator()
    for factor in range(6):
        assert op(X, factor=factor)[1] == factor
    assert len(programs(op)) <= 3
    assert op(X, factor=0)[1] == 0


def test_threads_that_register_and_call_get_an_old_or_the_new_kernel():
    op, seen, stop = operator(lambda outs, **_: lambda x: x), [], threading.Event()

    def call():
        while not stop.is_set():
            seen.append(float(op(X)[1]))

    threads = [threading.Thread(target=call) for _ in range(2)]
    [thread.start() for thread in threads]
    for number in range(2, 8):
        op.def_jnp_kernel(lambda outs, number=number, **_: lambda x: x * number)
        assert op(X)[1] == number
    stop.set()
    [thread.join() for thread in threads]
    assert set(seen) <= set(map(float, range(1, 8)))
