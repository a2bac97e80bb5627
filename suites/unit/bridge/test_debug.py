"""Checks that debug_mode names each kind of wrong kernel under every transformation, and lets right kernels pass."""

import contextlib
import ctypes
import logging
import os
import subprocess
import sys
from dataclasses import replace

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

import bridge
from bridge import DebugError, XLACustomKernel, debug_mode, numba_kernel, use_backend
from bridge.debug.findings import kept
from bridge.debug.mode import OFF, Mode, _parsed
from bridge.ffi.native.addresses import c_function, c_string
from bridge.ffi.native.words import store
from bridge.ffi.order import after
from bridge.ffi.plans import device, poison
from bridge.ffi.target import CPU
from suites.unit.bridge import kernels

Spec = jax.ShapeDtypeStruct
SIZE = 6
X = jnp.arange(1.0, SIZE + 1)
OUT = Spec((SIZE,), np.float32)
FAILED = (jax.errors.JaxRuntimeError, ValueError)
"""JAX's errors for an exception in a callback; it raises the second one if the program has run before."""

NONE = {"outputs": False, "inputs": False, "reference": False, "nan": False}


@numba.njit
def right(x, out):
    for i in range(out.size):
        out[i] = 2 * x[i]


@numba.njit
def unfinished(x, out):
    for i in range(out.size - 2):
        out[i] = 2 * x[i]


@numba.njit
def intrusive(x, out):
    for i in range(out.size):
        out[i] = 2 * x[i]
    store(x.ctypes.data, 2, 0)  # elements 4 and 5, behind Numba's back


@numba.njit
def inexact(x, out):
    for i in range(out.size):
        out[i] = 2 * x[i]
    out[3] += 0.01


@numba.njit
def invalid(x, out):
    for i in range(out.size):
        out[i] = 2 * x[i]
    out[1] = np.nan


FAULTS = {
    "outputs": (unfinished, r"the kernel unfinished did not write \d+ of \d+ elements of its output 0 \(float32"),
    "inputs": (intrusive, r"the kernel changed \d+ of \d+ elements of its input 0 \(float32.*from 5\.0 to 0\.0"),
    "reference": (inexact, r"of output 0 \(float32.*differ from those of jnp.*: 8\.01\d*, expected 8\.0"),
    "nan": (invalid, r"of output 0 \(float32.*are NaN, and no input is"),
}
"""A wrong kernel and the text of the finding, by the check that finds it."""


def operator(kernel, name="twice"):
    """An operator whose kernel doubles a vector; its derivative is twice the operator on the cotangent."""
    op = XLACustomKernel(name, outs=lambda x: Spec(x.shape, x.dtype))
    op.def_numba_kernel(lambda outs: numba_kernel(kernel, outs[0]))
    op.def_jnp_kernel(lambda outs: lambda x: 2 * x)
    op.def_vjp(lambda x, outs: (2 * x, None), lambda _, cotangents, outs: op(cotangents[0]))
    return op


def only(check):
    return debug_mode(**{**NONE, check: True})


@pytest.fixture(autouse=True)
def quiet():
    """Silences the logs of findings that the tests provoke, and leaves no finding for the next test."""
    loggers = [logging.getLogger(name) for name in ("jax._src.callback", "bridge.debug.findings")]
    for logger in loggers:
        logger.disabled = True
    yield
    for logger in loggers:
        logger.disabled = False
    with contextlib.suppress(DebugError):
        kept.raise_all()


def scanned(op):
    return lambda x: jax.lax.scan(lambda carry, row: (carry, op(row)), 0, jnp.stack([x, x]))[1][1]


TRANSFORMS = {
    "eager": lambda op: op,
    "jit": lambda op: jax.jit(lambda x: op(x)),
    "vmap": lambda op: lambda x: jax.vmap(op)(jnp.stack([x, x]))[1],
    "grad": lambda op: lambda x: jax.vjp(op, x)[1](x)[0],
    "scan": scanned,
}


@pytest.mark.parametrize("transform", TRANSFORMS)
class TestTransformations:
    @pytest.mark.parametrize("check", FAULTS)
    def test_a_fault_is_found(self, transform, check):
        kernel, message = FAULTS[check]
        program = TRANSFORMS[transform](operator(kernel))
        place = r"twice, backend numba on cpu, called with float32\[(2, )?6\]: "
        with only(check), pytest.raises(FAILED, match=f"DebugError: {place}.*{message}"):
            jax.block_until_ready(program(X))

    def test_a_right_kernel_passes(self, transform):
        with debug_mode():
            result = TRANSFORMS[transform](operator(right))(X)
        np.testing.assert_array_equal(result, 2 * X)


class TestDevices:
    """Programs for several devices go on after a finding, so that no device waits for one that failed."""

    @pytest.fixture
    def mesh(self):
        return jax.make_mesh((8,), ("d",), axis_types=(jax.sharding.AxisType.Auto,), devices=jax.devices("cpu")[:8])

    def sharded(self, op, mesh):
        def total(x):
            return jax.lax.psum(op(x), "d")

        return jax.jit(
            jax.shard_map(total, mesh=mesh, in_specs=PartitionSpec("d"), out_specs=PartitionSpec(), check_vma=True)
        )

    @pytest.mark.parametrize("check", ["outputs", "inputs"])
    def test_a_fault_on_one_device_is_raised_when_the_context_is_left(self, mesh, check):
        kernel, message = FAULTS[check]
        program = self.sharded(operator(kernel), mesh)
        with pytest.raises(DebugError, match=message), only(check):
            jax.block_until_ready(program(jnp.tile(X, 8)))

    def test_a_right_kernel_passes(self, mesh):
        with debug_mode():
            result = self.sharded(operator(right), mesh)(jnp.tile(X, 8))
        np.testing.assert_array_equal(result, 16 * X)

    def test_a_split_operator_is_checked_as_a_whole(self, mesh):
        op = operator(unfinished)
        op.def_partitioning("i -> i", split="i")
        x = jax.device_put(jnp.tile(X, 8), NamedSharding(mesh, PartitionSpec("d")))
        with pytest.raises(DebugError, match=r"did not write 2 of 48 elements.*first at \[46\]"), only("outputs"):
            jax.block_until_ready(jax.jit(lambda x: op(x))(x))

    def test_a_finding_is_also_raised_by_the_next_trace(self, mesh):
        with only("outputs"):
            jax.block_until_ready(self.sharded(operator(unfinished), mesh)(jnp.tile(X, 8)))
            with pytest.raises(DebugError, match="did not write"):
                operator(right)(X)


class TestOutputs:
    @pytest.mark.parametrize("dtype", [bool, jnp.int8, jnp.complex64])
    def test_unwritten_elements_of_every_kind(self, dtype):
        @numba.njit
        def some(x, out):
            out[0], out[2] = x[0], x[0]

        op = XLACustomKernel("some", outs=lambda x: Spec((2, 3), x.dtype))
        op.def_numba_kernel(lambda outs: lambda x: numba_kernel(some, Spec((6,), x.dtype))(x).reshape(2, 3))
        expected = r"did not write 4 of 6 elements of its output 0 \(.*\[6\]\), the first at \[1\]"
        with only("outputs"), pytest.raises(FAILED, match=expected):
            jax.block_until_ready(op(jnp.zeros(1, dtype)))

    @pytest.mark.parametrize("byte", poison.PATTERNS)
    def test_a_value_that_looks_like_a_pattern_counts_as_written(self, byte):
        op = XLACustomKernel("copy", outs=lambda x: Spec(x.shape, x.dtype))
        op.def_numba_kernel(lambda outs: lambda x: numba_kernel(kernels.add, outs[0])(x, jnp.zeros_like(x)))
        x = np.full(8, byte, np.uint8).view(np.int32)
        with only("outputs"):
            assert np.asarray(op(x)).tobytes() == x.tobytes()

    def test_kernels_in_nested_functions_are_checked(self):
        def generator(outs):
            @jax.jit
            def inner(x):
                return jax.lax.cond(x[0] > 0, numba_kernel(unfinished, outs[0]), lambda x: x, x)

            return lambda x: jax.lax.fori_loop(0, 2, lambda _, x: inner(x), x) + 1

        op = XLACustomKernel("nested", outs=lambda x: Spec(x.shape, x.dtype))
        op.def_kernel("mine", "cpu", generator)
        with only("outputs"):
            np.testing.assert_array_equal(op(-X), 1 - X)
            with pytest.raises(FAILED, match=r"nested, backend mine on cpu.*kernel unfinished did not"):
                jax.block_until_ready(op(X))

    def test_outputs_that_nothing_uses_are_not_looked_at(self):
        @numba.njit
        def half(x, out, rest):
            out[0] = x[0]
            rest[0] = x[0]

        op = XLACustomKernel("half", outs=lambda x: Spec((1,), x.dtype))
        op.def_numba_kernel(lambda outs: lambda x: numba_kernel(half, [outs[0], Spec((9,), x.dtype)])(x)[0])
        with only("outputs"):
            assert op(X)[0] == X[0]

    def test_an_output_that_holds_an_input_is_not_filled(self):
        op = XLACustomKernel("increment", outs=lambda x: Spec(x.shape, x.dtype))
        op.def_numba_kernel(lambda outs: numba_kernel(kernels.increment, outs[0], input_output_aliases={0: 0}))
        with debug_mode():
            np.testing.assert_array_equal(op(X), X + 1)

    def test_empty_arrays_and_no_arguments(self):
        op = XLACustomKernel("fill", outs=lambda size: Spec((size,), np.float32))
        op.def_numba_kernel(lambda outs, size: numba_kernel(kernels.fill, outs[0]))
        with debug_mode():
            assert op(size=0).shape == (0,)
            np.testing.assert_array_equal(op(size=3), [0, 1, 2])


class TestInputs:
    def test_the_callers_arrays_are_left_alone(self):
        x = X + 0
        with only("inputs"), pytest.raises(FAILED, match=r"2 of 6 .*, the first at \[4\]"):
            jax.block_until_ready(operator(intrusive)(x))
        np.testing.assert_array_equal(x, X)

    def test_another_operator_on_the_same_array_is_not_blamed(self):
        good, bad = operator(right, "good"), operator(intrusive, "bad")
        with only("inputs"), pytest.raises(FAILED, match="DebugError: bad, ") as caught:
            jax.block_until_ready(jax.jit(lambda x: (bad(x), good(x)))(X))
        assert "DebugError: good" not in str(caught.value)

    def test_the_order_is_one_that_xla_keeps(self):
        """In the compiled program, the array is copied before the kernel and read again after it."""
        with only("inputs"):
            text = jax.jit(operator(right).__call__).lower(X).compile().as_text()
        calls = [line for line in text.splitlines() if 'custom_call_target="bridge_cpu"' in line]
        kernels_called = ["identity" if "identity:" in line else "numba" for line in calls]
        assert kernels_called == ["identity", "numba", "identity", "identity"]

    def test_after_waits_for_arrays_of_any_kind(self):
        others = [jnp.zeros(()), jnp.zeros((2, 0)), jnp.ones(3, bool), jax.random.key(0)]
        (x,) = jax.jit(lambda x, *others: after([x], others, "cpu"))(X, *others)
        np.testing.assert_array_equal(x, X)


class TestReference:
    def compared(self, got, expected, **options):
        op = XLACustomKernel("constant", outs=lambda x, expected: Spec(x.shape, x.dtype))
        op.def_kernel("mine", "cpu", lambda outs, expected: lambda x: x)
        op.def_jnp_kernel(lambda outs, expected: lambda x: jnp.array(expected, x.dtype))
        with debug_mode(**{**NONE, "reference": True, **options}):
            jax.block_until_ready(op(got, expected=expected))

    @pytest.mark.parametrize(
        ("got", "expected"),
        [
            (np.array([1, np.nan, np.inf, -np.inf, 1e-6], np.float32), (1, np.nan, np.inf, -np.inf, 0)),
            (np.array([1e-40], np.float32), (0,)),
            (np.array([1, 1.0078125], jnp.bfloat16), (1, 1)),
            (np.array([1 + 1e-6j], np.complex64), (1,)),
        ],
    )
    def test_accepted(self, got, expected):
        self.compared(got, expected)

    @pytest.mark.parametrize(
        ("got", "expected"),
        [
            (np.array([1, np.nan], np.float32), (1, 1)),
            (np.array([1, 3e38], np.float32), (1, np.inf)),
            (np.array([-np.inf], np.float32), (np.inf,)),
            (np.array([1e-3, 1], np.float32), (0, 1)),
            (np.array([1 + 1e-3j], np.complex64), (1,)),
            (np.array([1, 7], np.int32), (1, 8)),
            (np.array([True]), (False,)),
        ],
    )
    def test_refused(self, got, expected):
        with pytest.raises(FAILED, match=r"1 of . elements of output 0 .* differ from those of jnp"):
            self.compared(got, expected)

    def test_rtol(self):
        self.compared(np.array([1.01], np.float32), (1,), rtol=0.1)
        with pytest.raises(FAILED, match="relative error above 1e-09; the largest finite difference is"):
            self.compared(np.array([1.000001], np.float32), (1,), rtol=1e-9)

    def test_a_named_backend(self):
        op = operator(right)
        op.def_kernel("other", "cpu", lambda outs: lambda x: 3 * x)
        for name, wrong in (("other", True), ("absent", False)):
            expected = pytest.raises(FAILED, match="differ from those of other")
            with debug_mode(**{**NONE, "reference": name}), expected if wrong else contextlib.nullcontext():
                jax.block_until_ready(op(X))

    def test_the_reference_is_not_compared_with_itself(self):
        with debug_mode(**{**NONE, "reference": True}), use_backend("jnp"):
            text = jax.jit(operator(right).__call__).lower(X).as_text()
        assert "custom_call" not in text


class TestNan:
    def test_a_nan_among_the_inputs_excuses_those_of_the_results(self):
        x = X.at[0].set(jnp.nan)
        with only("nan"):
            jax.block_until_ready(operator(invalid)(x))
        with (
            debug_mode(**{**NONE, "nan": "any"}),
            pytest.raises(FAILED, match=r"2 of 6 elements of output 0 .* are NaN, the first at \[0"),
        ):
            jax.block_until_ready(operator(invalid)(x))


class TestMode:
    def test_switched_off_checks_find_nothing(self):
        for check, (kernel, _) in FAULTS.items():
            with debug_mode(**{**NONE, "reference": check == "inputs"}):
                jax.block_until_ready(operator(kernel)(X + 0 if check != "inputs" else jnp.zeros(SIZE)))

    def test_without_the_mode_nothing_is_added(self):
        op = operator(right)

        def lowered():
            def program(x):
                return op(x)

            return jax.jit(program).lower(X)

        programs, jaxprs = [], []
        for on in (False, True, False):
            with debug_mode() if on else contextlib.nullcontext():
                programs.append(lowered())
                jaxprs.append(str(jax.make_jaxpr(lambda x: op(x))(X)))
        before, checked, afterwards = programs
        assert afterwards.as_text() == before.as_text()
        assert afterwards.compile().as_text() == before.compile().as_text()
        assert jaxprs[0] == jaxprs[2]
        assert "callback" not in before.as_text()
        assert "poison" not in before.as_text()
        assert "callback" in checked.as_text()
        assert "poisoned" in checked.as_text()

    def test_a_program_keeps_the_checks_it_was_compiled_with(self):
        op = operator(unfinished)
        plain = jax.jit(lambda x: op(x))
        plain(X)
        with only("outputs"):
            checked = jax.jit(lambda x: op(x))
            with pytest.raises(FAILED, match="did not write"):
                jax.block_until_ready(checked(X))
            jax.block_until_ready(plain(X))
        with pytest.raises(FAILED, match="did not write"):
            jax.block_until_ready(checked(X))
        jax.block_until_ready(op(X))

    def test_a_rule_that_runs_after_the_context_is_checked(self):
        with only("outputs"):
            _, pullback = jax.vjp(operator(unfinished), X)
        with pytest.raises(FAILED, match="did not write"):
            jax.block_until_ready(pullback(X))

    def test_export_says_why_it_cannot(self):
        with debug_mode(), pytest.raises(DebugError, match="twice: its checks call Python"):
            jax.export.export(
                jax.jit(operator(right).__call__), platforms=("cpu",), disabled_checks=bridge.export_checks()
            )(X)


class TestVariable:
    @pytest.mark.parametrize(
        ("text", "mode"),
        [
            ("", OFF),
            ("0", OFF),
            ("1", Mode()),
            ("outputs, nan=any", replace(OFF, outputs=True, nan="any")),
            ("inputs,reference,rtol=1e-3", replace(OFF, inputs=True, reference="jnp", rtol=1e-3)),
            ("nan,reference=numba", replace(OFF, nan="new", reference="numba")),
        ],
    )
    def test_values(self, text, mode):
        assert _parsed(text) == mode

    @pytest.mark.parametrize("text", ["yes", "outputs=3", "rtol", "rtol=much", "nan=some"])
    def test_bad_values(self, monkeypatch, text):
        monkeypatch.setenv("KERNEL_BRIDGE_DEBUG", text)
        with pytest.raises(ValueError, match=f"KERNEL_BRIDGE_DEBUG is '{text}'"):
            operator(right)(X)

    def test_in_a_fresh_process(self):
        program = """
import jax, jax.numpy as jnp, numba
from bridge import XLACustomKernel, numba_kernel

@numba.njit
def first(x, out):
    out[0] = x[0]

op = XLACustomKernel("first", outs=lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype))
op.def_numba_kernel(lambda outs: numba_kernel(first, outs[0]))
jax.block_until_ready(op(jnp.ones(1)))
print("passed", flush=True)
jax.block_until_ready(op(jnp.ones(6)))
"""
        environment = {**os.environ, "KERNEL_BRIDGE_DEBUG": "outputs"}
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=100)
        assert (done.returncode, done.stdout) == (1, "passed\n")
        assert "the kernel first did not write 5 of 6 elements" in done.stderr


@pytest.fixture(scope="module")
def stand_in():
    return _Memset()


class TestStreamFill:
    """The fill of a CUDA output, tested on the CPU with a stand-in for cuMemsetD8Async."""

    def test_the_output_is_filled_on_the_stream_before_the_kernel_runs(self, stand_in):
        result = stand_in.run(0)
        assert stand_in.filled == [(0x5A, 4 * SIZE, None)]
        np.testing.assert_array_equal(result[:-2], 2 * X[:-2])
        assert (result[-2:].view(np.uint8) == 0x5A).all()

    def test_a_refused_fill_is_an_error(self, stand_in):
        with pytest.raises(FAILED, match="the fill of an output: 7"):
            stand_in.run(7)

    def test_bytes_of_each_output(self):
        outputs = [Spec((2, 3), np.float64), Spec((4,), bool), Spec((5,), np.int8)]
        assert poison.fills(outputs, {2}, 1).tolist() == [48, 0x5A, 4, 1, 0, 0x5A]


class _Memset:
    """A target on the CPU that fills outputs through a recorded function, which returns ``status``."""

    def __init__(self):
        self.filled, self.status = [], 0
        kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64, ctypes.c_ubyte, ctypes.c_size_t, ctypes.c_void_p)
        self._memset = kind(self._record)
        self._describe = device.DESCRIBE(lambda status, name: c_string(f"{ctypes.string_at(name).decode()}: {status}"))
        fill = poison.stream_fill(c_function(self._memset), c_function(self._describe))
        self.target = CPU.variant("_test_fill", lambda inner: poison.fill_before(inner, fill, on_stream=False))
        self.target.install()

    def _record(self, address, byte, size, stream):
        self.filled.append((byte, size, stream))
        ctypes.memset(address, byte, size)
        return self.status

    def run(self, status):
        self.status = status
        closed = jax.make_jaxpr(numba_kernel(unfinished, Spec((SIZE,), np.float32)))(X)
        call = closed.eqns[0].params["jaxpr"].eqns[0].params["call"]
        key = np.int64(call.code.entry("cpu").key)
        fills = poison.fills([Spec((SIZE,), np.float32)], (), 1)
        function = jax.ffi.ffi_call(self.target.name, Spec((SIZE,), np.float32))
        return np.asarray(jax.jit(lambda x: function(x, key=key, fills=fills))(X))
