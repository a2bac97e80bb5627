"""Checks that debug_mode names each kind of wrong kernel under every transformation, and lets right kernels pass."""

import contextlib
import ctypes
import logging
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

import bridge
from bridge import (
    DebugError,
    GatherWarning,
    XLACustomKernel,
    debug_mode,
    jax_kernel,
    numba_kernel,
)
from bridge.debug import findings
from bridge.debug.findings import raise_kept
from bridge.debug.mode import OFF, current_mode
from bridge.ffi.cuda import driver
from bridge.ffi.native.addresses import c_string
from bridge.ffi.native.call_frame import STREAM_WORD
from bridge.ffi.native.words import store
from bridge.ffi.plans import poison
from suites.kernels.warp.blocks import wp
from suites.unit.bridge import kernels, warp_kernels

Spec = jax.ShapeDtypeStruct
SIZE = 6
X = jnp.arange(1.0, SIZE + 1)
OUT = Spec((SIZE,), np.float32)
FAILED = jax.errors.JaxRuntimeError

NONE = {"outputs": False, "inputs": False, "reference": False, "nan": False, "bounds": False}


@numba.njit
def unfinished(x, out):
    for i in range(out.size - 2):
        out[i] = 2 * x[i]


@numba.njit
def reading(x, out):
    for i in range(out.size):
        out[i] = 0 if out[i] > 1e6 else 2 * x[i]


@numba.njit
def accumulating(x, out):
    for i in range(out.size):
        out[i] += x[i]


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


@numba.njit
def outside(x, out):
    for i in range(out.size + 1):
        out[i] = 2 * x[min(i, x.size - 1)]


@wp.kernel(module="unique")
def rooted(x: warp_kernels.VECTOR, out: warp_kernels.VECTOR):
    """Its derivative is infinite at 0, and 0 times that is NaN."""
    i = wp.tid()
    out[i] = wp.sqrt(x[i])


def operator(kernel, name="twice"):
    """An operator whose kernel doubles a vector; its derivative is twice the operator on the cotangent."""
    op = XLACustomKernel(name, outs=lambda x: Spec(x.shape, x.dtype))
    op.def_numba_kernel(lambda outs: numba_kernel(kernel, outs[0]))
    op.def_jnp_kernel(lambda outs: lambda x: 2 * x)
    op.def_vjp(lambda x, outs: (2 * x, None), lambda _, cotangents, outs: op(cotangents[0]))
    return op


def wrapped(kernel):
    return numba_kernel(kernel, OUT)


CALLED = r"called with float32\[(2, )?6\]: "
IN_OPERATOR = rf"DebugError: twice, backend numba on cpu, {CALLED}.*"
OF_OUTPUT = r"\d+ of \d+ elements of its output 0 \(float32"
FAULTS = {
    "outputs": (unfinished, f"the kernel unfinished did not write {OF_OUTPUT}"),
    "inputs": (intrusive, r"the kernel intrusive changed \d+ of \d+ elements of its input 0 .*from 5\.0 to 0\.0"),
    "nan": (invalid, r"of output 0 \(float32.*are NaN, and no input is"),
}
EVERYWHERE = {
    **{f"kernel-{check}": (wrapped(kernel), check, rf"DebugError: {kernel.py_func.__name__} on cpu, {CALLED}.*{text}")
        for check, (kernel, text) in FAULTS.items()},
    "operator-outputs": (operator(unfinished), "outputs", IN_OPERATOR + FAULTS["outputs"][1]),
    "operator-reference": (operator(inexact), "reference",
        rf"{IN_OPERATOR}of output 0 \(float32.*differ from those of jnp.*: 8\.01\d*, expected 8\.0"),
}  # fmt: skip
"""A call of a wrong kernel, the check that finds it, and what the error says: looked for under each transformation."""

CASES = {
    "kernel-outputs read": (wrapped(reading), "outputs", f"reading gave {OF_OUTPUT}.* reads what it has not"),
    "kernel-outputs added to": (wrapped(accumulating), "outputs",
        f"did not write {OF_OUTPUT}.*first at .*, or only added to what it found there"),
    "kernel-bounds": (wrapped(outside), "bounds", "outside raised IndexError: index is out of bounds"),
}  # fmt: skip
"""The same for programs alone."""

TRANSFORMS = {
    "jit": lambda call: jax.jit(lambda x: call(x)),
    "vmap": lambda call: lambda x: jax.vmap(call)(jnp.stack([x, x]))[1],
}
RIGHT = {
    "kernel": lambda: wrapped(kernels.double),
    "operator": lambda: operator(kernels.double),
    "of the operator": lambda: lambda x: jax.vjp(operator(kernels.double), x)[1](x)[0],
}


def only(check):
    return debug_mode(**{**NONE, check: True})


@pytest.fixture(autouse=True)
def quiet():
    """Silences the logs of findings that the tests provoke, and leaves no finding for the next test."""
    logger = logging.getLogger("bridge.debug.findings")
    logger.disabled = True
    yield
    logger.disabled = False
    with contextlib.suppress(DebugError):
        raise_kept()


@pytest.mark.parametrize(
    ("case", "transform"),
    [*((case, transform) for transform in TRANSFORMS for case in EVERYWHERE), *((case, "jit") for case in CASES)],
)
def test_a_fault_is_found(transform, case):
    call, check, message = {**EVERYWHERE, **CASES}[case]
    with only(check), pytest.raises(FAILED, match=message):
        jax.block_until_ready(TRANSFORMS[transform](call)(X))


@pytest.mark.parametrize("text", ["a finding", None])
def test_on_a_gpu_the_address_of_a_report_is_read_once_the_stream_is_done(monkeypatch, text):
    address = np.array([c_string(text) if text else 0])
    waited, made = [], []

    def copy(content, source, size):
        assert waited == [7]
        ctypes.memmove(content, source.value, size.value)
        return 0

    driver_library = SimpleNamespace(
        cuStreamSynchronize=lambda stream: waited.append(stream.value) or 0, cuMemcpyDtoH_v2=copy
    )
    monkeypatch.setattr(driver, "library", lambda: driver_library)
    data = np.zeros(STREAM_WORD + 1, np.int64)
    data[0], data[STREAM_WORD] = address.ctypes.data, 7
    monkeypatch.setattr(findings, "create_error", lambda frame, report: made.append(report) or 1)
    assert findings._fail(0, 0, data.ctypes.data, 0, 1) == len(made)
    assert made == [text] * bool(text)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("case", RIGHT)
def test_a_right_kernel_passes(transform, case):
    with debug_mode():
        np.testing.assert_array_equal(TRANSFORMS[transform](RIGHT[case]())(X), 2 * X)


class TestDevices:
    """Programs for several devices go on after a finding, so that no device waits for one that failed."""

    @pytest.fixture
    def mesh(self):
        return jax.make_mesh((8,), ("d",), axis_types=(jax.sharding.AxisType.Auto,), devices=jax.devices("cpu")[:8])

    def sharded(self, call, mesh):
        def total(x):
            return jax.lax.psum(call(x), "d")

        spec = PartitionSpec("d")
        return jax.jit(jax.shard_map(total, mesh=mesh, in_specs=spec, out_specs=PartitionSpec(), check_vma=True))

    def test_a_fault_on_one_device_is_raised_when_the_context_is_left(self, mesh):
        call, check, message = EVERYWHERE["kernel-inputs"]
        with pytest.raises(DebugError, match=message.removeprefix("DebugError: ")), only(check):
            jax.block_until_ready(self.sharded(call, mesh)(jnp.tile(X, 8)))

    def test_right_kernels_pass_and_a_split_operator_is_checked_as_a_whole(self, mesh):
        with debug_mode():
            np.testing.assert_array_equal(self.sharded(operator(kernels.double), mesh)(jnp.tile(X, 8)), 16 * X)
        op = operator(unfinished)
        op.def_partitioning("i -> i", split="i")
        x = jax.device_put(jnp.tile(X, 8), NamedSharding(mesh, PartitionSpec("d")))
        found = pytest.raises(DebugError, match=r"did not write 2 of 48 elements.*first at \[46\]")
        with (
            found,
            only("outputs"),
            pytest.warns(GatherWarning, match=r"is watched \(by debug mode or tune\) and runs on a mesh"),
        ):
            jax.block_until_ready(jax.jit(lambda x: op(x))(x))


class TestOutputs:
    @pytest.mark.parametrize("dtype", [bool, jnp.complex64])
    def test_unwritten_elements_of_every_kind(self, dtype):
        @numba.njit
        def some(x, out):
            out[0], out[2] = x[0], x[0]

        call = numba_kernel(some, Spec((6,), dtype))
        with only("outputs"), pytest.raises(FAILED, match=r"did not write 4 of 6 elements .*, the first at \[1\]"):
            jax.block_until_ready(call(jnp.zeros(1, dtype)))

    @pytest.mark.parametrize("byte", poison.PATTERNS)
    def test_a_value_that_looks_like_a_pattern_counts_as_written(self, byte):
        x = np.full(8, byte, np.uint8).view(np.int32)
        with only("outputs"):
            found = numba_kernel(kernels.add, Spec(x.shape, x.dtype))(x, np.zeros_like(x))
        assert np.asarray(found).tobytes() == x.tobytes()

    def test_outputs_that_need_no_check(self):
        """They hold an input, or they are empty, or the call has side effects and runs once."""
        fill = XLACustomKernel("fill", outs=lambda size: Spec((size,), np.float32))
        fill.def_numba_kernel(lambda outs, size: numba_kernel(kernels.fill, outs[0]))
        with debug_mode():
            in_place = numba_kernel(kernels.increment, OUT, input_output_aliases={0: 0})
            np.testing.assert_array_equal(in_place(X), X + 1)
            np.testing.assert_array_equal(jax_kernel(warp_kernels.increment, in_out_argnames=["x"])(X)[0], X + 1)
            assert (fill(size=0).shape, fill(size=3).tolist()) == ((0,), [0, 1, 2])
            product, total = numba_kernel(kernels.outer, lambda x, y: [Spec((x.size, x.size), x.dtype), y])(X, 1.0)
            np.testing.assert_array_equal(product, jnp.outer(X, X) + 1)
            assert total == product.sum()
        with only("outputs"):
            jax.block_until_ready(numba_kernel(unfinished, OUT, has_side_effect=True)(X))


class TestInputs:
    def test_the_callers_arrays_are_left_alone_and_no_other_operator_is_blamed(self):
        x, good, bad = X + 0, operator(kernels.double, "good"), operator(intrusive, "bad")
        with (
            only("inputs"),
            pytest.raises(FAILED, match=r"DebugError: bad, .* 2 of 6 .*, the first at \[4\]") as caught,
        ):
            jax.block_until_ready(jax.jit(lambda x: (bad(x), good(x)))(x))
        assert "DebugError: good" not in str(caught.value)
        np.testing.assert_array_equal(x, X)

    def test_a_kernel_that_gets_a_copy_because_it_may_write_to_it_is_found_only_if_it_does(self):
        @numba.njit
        def writes_if_large(x, out):
            for i in range(x.size):
                out[i] = x[i]
                if i > 100:
                    x.flat[i] = 0

        with debug_mode():
            np.testing.assert_array_equal(wrapped(writes_if_large)(X), X)
            with pytest.raises(FAILED, match=r"changed 99 of 200 elements of its input 0") as caught:
                jax.block_until_ready(numba_kernel(writes_if_large, lambda x: x)(jnp.ones(200)))
        assert "NaN" not in str(caught.value)


class TestReferenceAndNan:
    """Which results agree is the question of test_agreement."""

    def test_a_nan_among_the_inputs_excuses_those_of_the_results(self):
        with only("nan"):
            jax.block_until_ready(operator(invalid)(X.at[0].set(jnp.nan)))

    def test_warps_derivatives_are_checked_too(self):
        with only("nan"):
            _, pullback = jax.vjp(lambda x: jax_kernel(rooted)(x)[0], jnp.zeros(6))
        with pytest.raises(FAILED, match=r"rooted \(adjoint\) on cpu, .* are NaN, and no input is"):
            jax.block_until_ready(pullback(jnp.zeros(6)))


class TestMode:
    """The mode in which a function is called counts: JAX compiles it for each mode."""

    @pytest.mark.parametrize("make", [operator, wrapped])
    def test_calls_before_in_and_after_the_context(self, make):
        call = make(unfinished)
        function = jax.jit(lambda x: call(x))
        compiled = function.lower(X).compile()
        for _ in range(2):
            jax.block_until_ready(function(X))
            with only("outputs"), pytest.raises(FAILED, match="did not write 2 of 6"):
                jax.block_until_ready(function(X))
            with only("outputs"), only("inputs"):  # the inner one counts
                jax.block_until_ready(function(X))
        with debug_mode():
            jax.block_until_ready(compiled(X))
            checked = function.lower(X)
            with pytest.raises(DebugError, match=r"(twice|unfinished): its checks call Python"):
                jax.export.export(function, platforms=("cpu",), disabled_checks=bridge.export_checks())(X)
        with pytest.raises(FAILED, match="did not write 2 of 6"):
            jax.block_until_ready(checked.compile()(X))
        for lowered, is_checked in ((function.lower(X), False), (checked, True)):
            assert ("callback" in lowered.as_text()) == ("poison" in lowered.as_text()) == is_checked

    def test_each_thread_has_its_own_and_a_context_that_fails_is_left(self):
        call = wrapped(unfinished)
        with contextlib.suppress(ZeroDivisionError), only("outputs"):
            with ThreadPoolExecutor(1) as threads:
                threads.submit(lambda: jax.block_until_ready(call(X))).result()
            with pytest.raises(FAILED, match="did not write"):
                jax.block_until_ready(call(X))
            raise ZeroDivisionError
        assert current_mode() == OFF


def test_the_values_of_the_variable(monkeypatch):
    for text, error, message in (
        ("1", FAILED, "unfinished did not write 2 of 6 elements"),
        ("yes", ValueError, "KERNEL_BRIDGE_DEBUG is 'yes'"),
    ):
        monkeypatch.setenv("KERNEL_BRIDGE_DEBUG", text)
        with pytest.raises(error, match=message):
            jax.block_until_ready(operator(unfinished)(X))
    monkeypatch.setenv("KERNEL_BRIDGE_DEBUG", "0")
    jax.block_until_ready(operator(unfinished)(X))
