"""Checks how operators register kernels, choose one, and run it: in eager calls, programs and copies."""

import copy
import dataclasses
import math
import pickle
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest

from bridge import (
    BackendError,
    ParameterError,
    SignatureError,
    XLACustomKernel,
    export_checks,
    jax_kernel,
    numba_kernel,
    use_backend,
)
from suites.unit.bridge import kernels, warp_kernels
from suites.unit.bridge.kernels import like

Spec = jax.ShapeDtypeStruct
X = jnp.arange(4.0)
OUT = Spec((4,), np.float32)


def scale(outs, factor=2.0):
    @numba.njit
    def scale(x, out):
        for i in range(x.size):
            out[i] = factor * x[i]

    return lambda x: numba_kernel(scale, outs[0])(x)


def warp_scale(outs, factor=2.0):
    call = jax_kernel(warp_kernels.scale, launch_dims=outs[0].shape, output_dims=outs[0].shape)
    return lambda x: call(x, factor)


def constant(value):
    return lambda outs, **_: lambda *x: jnp.full(outs[0].shape, value, outs[0].dtype)


def plain(outs, factor=1.0, **_):
    return lambda x: (x * factor).astype(outs[0].dtype)


def operator(generator=plain, outs=like, **options):
    op = XLACustomKernel("scale", outs, **options)
    op.def_jnp_kernel(generator)
    return op


@pytest.fixture
def op():
    op = XLACustomKernel("scale")
    op.def_numba_kernel(scale)
    return op


@pytest.fixture
def traced():
    """An operator, and a list that grows at each trace of its kernel."""
    seen = []
    return operator(lambda outs, **_: lambda x: seen.append(1) or x), seen


DEFAULTS = {
    "Warp to Numba": (["warp", "numba"], "numba"),
    "the first of several takes its place": (["warp", "numba", "other"], "numba"),
    "as default it stays": (["warp!", "numba"], "warp"),
    "a chosen one stays": (["jnp", "=jnp", "numba"], "jnp"),
}
"""What is registered in order (with "!" as default, "=" sets it), and the default of the CPU."""


@pytest.mark.parametrize("case", DEFAULTS)
def test_defaults(case):
    op = XLACustomKernel("op")
    names, expected = DEFAULTS[case]
    for name in names:
        backend = name.strip("=!")
        if name.startswith("="):
            op.set_default("cpu", backend)
        elif backend == "other":
            op.def_kernel(backend, "cpu", constant(1))
        else:
            getattr(op, f"def_{backend}_kernel")(constant(1), asdefault=name.endswith("!"))
    assert op.defaults["cpu"] == expected
    assert set(op._kernels["cpu"]) == set(op.available_backends("cpu")) == {name.strip("=!") for name in names}


class TestChoice:
    """choose is a pure function of a snapshot and the wishes of a call."""

    def test_whoever_names_a_backend_it_counts_in_eager_calls_and_programs(self, monkeypatch):
        op = operator()
        op.def_kernel("other", "cpu", constant(100))
        op.set_default("cpu", "jnp")
        program = jax.jit(lambda x: op(x))
        for call in (op, program) * 2:
            assert call(X)[1] == 1
            with use_backend("other"):
                assert call(X)[1] == 100
                assert op(X, backend="jnp")[1] == 1
                with use_backend("warp", "default"):
                    assert call(X)[1] == 1
                with ThreadPoolExecutor(1) as threads:
                    assert threads.submit(call, X).result()[1] == 1
            assert op(X, backend="other")[1] == 100
        monkeypatch.setenv("KERNEL_BRIDGE_BACKEND", "other, default")
        assert op(X + 1, factor=2)[1] == 100
        with use_backend("jnp"):
            assert op(X + 1, factor=2)[1] == 4

    def test_another_backend_never_runs_silently(self, op):
        op.def_kernel("cuda-only", "cuda", constant(1))
        with pytest.raises(
            BackendError, match=r"no kernel for platform 'cpu' \(this call can run on cuda: cuda-only\)"
        ):
            op(X, outs=OUT, backend="cuda-only")
        with use_backend("warp", "pallas"), pytest.raises(BackendError, match="backend 'warp' or 'pallas' is not reg"):
            op(X, outs=OUT)


def test_an_error_of_a_generator_is_its_own():
    with pytest.raises(TypeError, match="object of type 'float' has no len") as caught:
        operator(lambda outs, factor: len(factor))(X, factor=2.0)
    assert not isinstance(caught.value, ParameterError)
    assert "raised by the jnp generator of the operator scale" in caught.value.__notes__[0]


class TestCalls:
    def test_a_kernel_may_return_any_container_and_results_have_that_of_outs(self):
        op = XLACustomKernel("two")
        op.def_numba_kernel(lambda outs: lambda x: {"a": x + 1, "b": x + 2})
        for outs in ([OUT, OUT], (OUT, OUT), {"y": OUT, "z": [OUT]}):
            results = op(X, outs=outs)
            assert jax.tree.structure(results) == jax.tree.structure(outs)
            assert [leaf[0] for leaf in jax.tree.leaves(results)] == [1, 2]

    def test_a_call_without_operands_in_a_batch(self):
        fill = XLACustomKernel("fill")
        fill.def_numba_kernel(lambda outs: numba_kernel(kernels.fill, outs[0]))
        np.testing.assert_array_equal(jax.vmap(lambda x: x + fill(outs=OUT)[2])(X), X + 2)

    def test_vmap_batches_the_kernel_in_one_call(self, op):
        xs = jnp.arange(24.0).reshape(2, 4, 3)
        nested = jax.vmap(jax.vmap(lambda x: op(x, outs=OUT, factor=3.0), 1), 0, out_axes=1)
        np.testing.assert_array_equal(nested(xs), 3 * xs.transpose(2, 0, 1))
        assert jax.jit(nested).lower(xs).compile().as_text().count('custom_call_target="bridge_cpu"') == 1

    def test_one_program_for_two_platforms_has_a_call_for_each(self, op):
        op.def_warp_kernel(warp_scale)
        program = jax.jit(lambda x: op(x, outs=OUT))
        assert "scale[cpu: numba, cuda: warp]" in str(jax.make_jaxpr(program)(X))
        exported = jax.export.export(program, platforms=("cpu", "cuda"), disabled_checks=export_checks())(X)
        assert [exported.mlir_module().count(f"@{name}(") for name in ("bridge_cpu", "bridge_cuda")] == [1, 1]
        np.testing.assert_array_equal(exported.call(X), 2 * X)


CHANGES = {
    "a kernel": lambda op: op.def_jnp_kernel(constant(100)),
    "a default": lambda op: (op.def_kernel("other", "cpu", constant(100)), op.set_default("cpu", "other")),
    "a rule": lambda op: op.def_batching(lambda extent, is_batched, x, outs: 100 + 0 * x),
}
"""By what changes: a call that turns a result of 1 into 100."""


class TestEager:
    """Eager calls find a compiled program, and never the program of another call."""

    def test_a_repeated_call_traces_nothing(self, traced):
        op, seen = traced
        for _ in range(3):
            op(X), op(X + 1), op(np.arange(4, dtype=np.float32))
        assert len(seen) == 1
        op(jnp.arange(5.0)), op(2.0)
        assert len(seen) == 3

    @pytest.mark.parametrize("change", CHANGES)
    def test_a_change_takes_effect_at_the_next_call_but_not_in_compiled_programs_and_copies(self, change):
        def result(op):
            return float((jax.vmap(op)(X[None])[0] if change == "a rule" else op(X))[1])

        op = operator()
        assert result(op) == 1
        program = jax.jit(lambda x: op(x))
        program(X)
        copies = [copy.copy(op), copy.deepcopy(op), pickle.loads(pickle.dumps(op))]
        for changed in (op, *copies):
            assert result(changed) == 1
            CHANGES[change](changed)
            assert result(changed) == 100
        assert program(X)[1] == 1

    def test_the_outs_of_a_call_count(self):
        op, changing = operator(outs=None), [Spec((4,), jnp.float32)]
        for _ in range(2):
            assert op(X, outs=Spec((4,), jnp.int32)).dtype == jnp.int32
            assert isinstance(op(X, outs=[OUT]), list)
            assert isinstance(op(X, outs=(OUT,)), tuple)
            assert op(X, outs=changing)[0].dtype == changing[0].dtype
            changing[0] = Spec((4,), jnp.int32)
            with pytest.raises(SignatureError, match="expected integers"):
                op(X, outs=Spec((4.0,), jnp.float32))
            with pytest.raises(SignatureError, match="outs is missing"):
                op(X)


NUMBER = Spec((), np.float32)


@dataclasses.dataclass(frozen=True)
class Record:
    first: object
    second: object = 0


@pytest.mark.parametrize("contain", [lambda v: v, lambda v: (v,), Record])
def test_no_call_gets_the_program_of_another_value(contain):
    """Not from the parameters of a call, nor from a configuration."""
    made = []

    def generator(outs, value):
        made.append(value)
        return lambda: jnp.float32(hash(repr(value)) % 1000)

    op = XLACustomKernel("written")
    op.def_kernel("mine", "cpu", generator)
    values = [contain(value) for value in (0.0, -0.0, 1, True, 1.0, np.float32(1), math.nan)]
    texts = [hash(repr(value)) % 1000 for value in values]
    assert [int(op(outs=NUMBER, value=value)) for value in values * 2] == texts * 2
    assert len(made) == 7
    assert [int(jax.jit(lambda value=value: op(outs=NUMBER, value=value))()) for value in values] == texts
    for value, text in zip(values, texts, strict=True):
        op.def_kernel("mine", "cpu", generator, configurations={"only": {"value": value}})
        assert op(outs=NUMBER) == text
