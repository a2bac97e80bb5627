"""warp_callable: functions that launch Warp kernels are recorded once, repeated natively, and refused by name."""

from concurrent.futures import ThreadPoolExecutor

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

from bridge import (
    DeviceMemoryError,
    DifferentiationError,
    KernelTypeError,
    PlatformError,
    RecordingError,
    SignatureError,
    warp_callable,
)
from suites.kernels.warp.blocks import wp
from suites.unit.bridge.warp_kernels import increment

FLOATS = wp.array(dtype=float)
X = jnp.sin(jnp.arange(8.0))
BATCH = jnp.stack([X, 2 * X, X + 1])


@wp.struct
class Field:
    values: FLOATS
    gain: float


@wp.kernel
def add(a: FLOATS, b: FLOATS, out: FLOATS):
    i = wp.tid()
    out[i] = a[i] + b[i]


@wp.kernel
def smooth(a: FLOATS, out: FLOATS):
    i = wp.tid()
    out[i] = 0.5 * (a[wp.max(i - 1, 0)] + a[wp.min(i + 1, a.shape[0] - 1)])


@wp.kernel
def scaled(field: Field, out: FLOATS):
    i = wp.tid()
    out[i] = field.gain * field.values[i]


@wp.kernel
def doubled_tile(a: FLOATS, out: FLOATS):
    i = wp.tid()
    tile = wp.tile_load(a, shape=4, offset=i * 4)
    wp.tile_store(out, tile + tile, offset=i * 4)


@wp.kernel
def number(address: wp.uint64, out: FLOATS):
    out[wp.tid()] = float(address)


@wp.kernel
def add_last(a: FLOATS, points: wp.array(dtype=wp.vec3d), out: FLOATS):
    i = wp.tid()
    out[i] = a[i] + float(points[i][2])


# Functions that can be recorded, each with what it computes.


def stencils(a: FLOATS, out: FLOATS):
    tmp = wp.empty(a.shape, dtype=float)
    wp.launch(add, dim=a.shape, inputs=[a, a], outputs=[tmp])
    for _ in range(2):
        wp.launch(smooth, dim=a.shape, inputs=[tmp], outputs=[out])
        wp.launch(smooth, dim=a.shape, inputs=[out], outputs=[tmp])
    wp.launch(smooth, dim=a.shape, inputs=[tmp], outputs=[out])


def smoothed(x, times=5):
    for _ in range(times):
        padded = np.pad(x, 1, mode="edge")
        x = np.float32(0.5) * (padded[:-2] + padded[2:])
    return x


def zeroes(a: FLOATS, out: FLOATS):
    out.zero_()
    wp.launch(add, dim=a.shape, inputs=[a, out], outputs=[out])


def takes_parts(a: FLOATS, out: FLOATS):
    out.fill_(7.0)
    wp.launch(add, dim=3, inputs=[a[1:4], a[2:5]], outputs=[out[5:]])
    wp.copy(out[1:5:2], a[::4])
    wp.copy(out, a, dest_offset=4, src_offset=6, count=1)


def parts(x):
    out = np.full(8, 7, np.float32)
    out[5:], out[1:5:2], out[4] = x[1:4] + x[2:5], x[::4], x[6]
    return out


def holds(a: FLOATS, out: FLOATS):
    field = Field()
    field.values, field.gain = a, 3.0
    wp.launch(scaled, dim=a.shape, inputs=[field], outputs=[out])


def tiles(a: FLOATS, out: FLOATS):
    wp.launch_tiled(doubled_tile, dim=[2], inputs=[a, out], block_dim=32)


def adjoins(a: FLOATS, out: FLOATS):
    out.zero_()
    arrays = {"inputs": [a, a, wp.empty_like(a)], "adj_inputs": [out, out, wp.full(a.shape, 1.0, dtype=float)]}
    wp.launch(add, dim=a.shape, **arrays, adjoint=True)


def spreads(a: FLOATS, out: FLOATS):
    points, spread = wp.full((2, 2), (1.0, 2.0, 3.0), dtype=wp.vec3d), wp.zeros((2, 4), dtype=wp.vec3d)
    spread[:, ::2].fill_(wp.vec3d(4.0, 5.0, 6.0))
    wp.copy(spread[:, 1::2], points)
    wp.launch(add_last, dim=8, inputs=[a, spread.flatten()], outputs=[out])


RIGHT = [
    (spreads, lambda x: x + np.array([6, 3] * 4, np.float32)),
    (adjoins, lambda x: np.full_like(x, 2)),
    (stencils, lambda x: smoothed(x + x)), (zeroes, lambda x: x),
    (takes_parts, parts), (holds, lambda x: np.float32(3) * x),
    (tiles, lambda x: x + x),
]  # fmt: skip


@pytest.mark.parametrize("python_call", [False, True], ids=["recorded", "python"])
@pytest.mark.parametrize(("function", "expected"), RIGHT, ids=lambda each: getattr(each, "__name__", ""))
def test_a_function_computes_what_it_says_alone_and_for_each_element_of_a_batch(function, expected, python_call):
    call, rows = warp_callable(function, python_call=python_call), [expected(np.asarray(row)) for row in BATCH]
    (alone,), (batch,) = call(X), jax.jit(jax.vmap(call))(BATCH)
    np.testing.assert_array_equal(alone, rows[0])
    np.testing.assert_array_equal(batch, rows)
    (loop,) = jax.jit(lambda x: jax.lax.fori_loop(0, 2, lambda _, x: call(x[0]), [x]))(X)
    np.testing.assert_array_equal(loop, expected(expected(np.asarray(X))))


def test_a_function_runs_once_for_each_shape_and_not_at_a_call():
    shapes = []

    def traced(a: FLOATS, out: FLOATS):
        shapes.append(a.shape)
        wp.copy(out, a)

    call = warp_callable(traced)
    for x in (X, X + 1, X[:3], X, X[:0]):
        np.testing.assert_array_equal(call(x)[0], x)
    assert jax.jit(jax.vmap(call)).lower(BATCH).as_text().count("@bridge_cpu(") == 1
    assert shapes == [(8,), (3,), (0,)]


# Functions that cannot be recorded.

KEPT = wp.full(8, 1.5, dtype=float, device="cpu")


def reads(a: FLOATS, out: FLOATS):
    out.fill_(float(a.numpy()[0]))


def catches(a: FLOATS, out: FLOATS):
    try:
        reads(a, out)
    except RecordingError:
        out.zero_()


def scans(a: FLOATS, out: FLOATS):
    wp.utils.array_scan(a, out, inclusive=True)


def clears_memory(a: FLOATS, out: FLOATS):
    wp.get_device("cpu").memset(KEPT.ptr, 0, 4)


def takes_address(a: FLOATS, out: FLOATS):
    wp.launch(number, dim=8, inputs=[a.ptr], outputs=[out])


def forgets(a: FLOATS, out: FLOATS):
    wp.launch(add, dim=8, inputs=[a, a], outputs=[wp.empty(8, dtype=float)])


def raises(a: FLOATS, out: FLOATS):
    raise LookupError("of its own")


def bypasses(a: FLOATS, out: FLOATS):
    memset(out.ptr, 0, 32)


memset = wp.get_device("cpu").memset  # as Warp had it before anything was recorded

REFUSED = [
    (reads, "it reads the values of an array"),
    (catches, "it reads the values of an array"),
    (scans, "it calls Warp's wp_array_scan_float_host"),
    (clears_memory, "wp_memset_host got memory of no array that Warp knows"),
    (takes_address, "an argument holds the address of an array"),
    (raises, "LookupError: of its own"),
    (forgets, "it does not write to its output 'out'"),
    (bypasses, "Warp's own record holds 1 operations that went past this one"),
]  # fmt: skip


@pytest.mark.parametrize(("function", "what"), REFUSED, ids=lambda each: getattr(each, "__name__", ""))
def test_what_cannot_be_recorded_is_named_and_nothing_is_left_behind(function, what):
    with pytest.raises(RecordingError, match=rf"^{function.__name__} cannot be recorded: {what}") as caught:
        warp_callable(function)(X)
    assert ("pass python_call=True" in str(caught.value)) is (function is not raises)  # which would not help
    np.testing.assert_array_equal(KEPT.numpy(), np.full(8, 1.5))
    np.testing.assert_array_equal(warp_callable(zeroes)(X)[0], X)


def test_what_cannot_be_recorded_runs_in_python_when_asked():
    np.testing.assert_array_equal(jax.vmap(warp_callable(scans, python_call=True))(BATCH)[0][1], np.cumsum(BATCH[1]))
    np.testing.assert_array_equal(jax.vmap(warp_callable(reads, python_call=True))(BATCH)[0][:, 3], BATCH[:, 0])
    with pytest.raises(jax.errors.JaxRuntimeError, match="raises raised LookupError: of its own"):
        jax.block_until_ready(warp_callable(raises, python_call=True)(X))


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (DeviceMemoryError("no memory"), "RESOURCE_EXHAUSTED"),
        (RuntimeError("Call to cuLaunchKernel results in CUDA_ERROR_OUT_OF_MEMORY"), "RESOURCE_EXHAUSTED"),
        (ValueError("é" * 5000 + "end"), "INTERNAL"),
    ],
    ids=lambda each: type(each).__name__,
)
def test_an_error_of_python_has_the_code_of_its_exception_and_ends_the_batch(error, code):
    calls = []

    def fails_second(a: FLOATS, out: FLOATS):
        calls.append(1)
        if len(calls) == 2:
            raise error

    with pytest.raises(jax.errors.JaxRuntimeError, match=f"^{code}: fails_second raised .*{error}"):
        jax.block_until_ready(jax.vmap(warp_callable(fails_second, python_call=True))(BATCH))
    assert len(calls) == 2


def test_inputs_do_not_change():
    def writes(a: FLOATS, out: FLOATS):
        wp.launch(increment, dim=8, inputs=[a])
        wp.copy(out, a)

    with pytest.raises(SignatureError, match=r"writes to its input 'a'.*in_out_argnames=\['a'\]"):
        warp_callable(writes)(X)
    np.testing.assert_array_equal(warp_callable(writes, python_call=True)(X)[0], jnp.sin(jnp.arange(8.0)) + 1)
    np.testing.assert_array_equal(X, jnp.sin(jnp.arange(8.0)))
    call = warp_callable(writes, 2, in_out_argnames=["a"], output_dims={"a": 8, "out": 8})
    for results in (call(X), warp_callable(writes, 2, in_out_argnames=["a"], python_call=True)(X)):
        np.testing.assert_array_equal(results, [X + 1, X + 1])
    np.testing.assert_array_equal(jax.vmap(call)(BATCH)[1], BATCH + 1)


def test_a_function_gets_its_floats_unrounded_and_the_kernels_of_its_last_definition():
    def steps(x: wp.array(dtype=float), dt: float, out: wp.array(dtype=float)):
        wp.copy(out, x)
        for _ in range(int(1 / dt)):
            wp.launch(kernel, dim=out.shape, inputs=[out])

    def adds(number):
        @wp.kernel(module="unique")
        def add(out: wp.array(dtype=float)):
            out[wp.tid()] += wp.static(float(number))

        return add

    for number in (1, 3):
        kernel = adds(number)
        for python_call in (False, True):
            (result,) = warp_callable(steps, python_call=python_call)(X, 0.1)
            np.testing.assert_allclose(result, X + 10 * number, rtol=1e-6)
    with pytest.raises(SignatureError, match="1e\\+39"):
        warp_callable(steps)(X, 1e39)


def test_an_array_of_an_earlier_recording_is_refused():
    kept = {}

    def keeps(x: wp.array(dtype=float), factor: float, out: wp.array(dtype=float)):
        if "ones" not in kept:
            kept["ones"] = wp.full(x.shape, 1.0, dtype=float)
        wp.launch(add, dim=x.shape, inputs=[x, kept["ones"]], outputs=[out])

    np.testing.assert_array_equal(warp_callable(keeps)(X, 2.0)[0], X + 1)
    with pytest.raises(RecordingError, match="it made when it ran before"):
        warp_callable(keeps)(X, 3.0)


def test_threads_record_and_run_apart():
    def run(at):
        (result,) = jax.jit(lambda x: warp_callable(stencils)(x * at))(jnp.arange(4.0 + at))
        return result, float(wp.ones(3, dtype=float, device="cpu").numpy().sum())

    with ThreadPoolExecutor(6) as pool:
        for at, (result, of_warp) in enumerate(pool.map(run, range(6))):
            np.testing.assert_array_equal(result, smoothed(2 * at * np.arange(4 + at, dtype=np.float32)))
            assert of_warp == 3


def test_what_a_call_cannot_do_is_said_in_one_line():
    with pytest.raises(PlatformError, match="zeroes runs on cpu or cuda, but is being lowered for tpu"):
        jax.jit(warp_callable(zeroes)).trace(X).lower(lowering_platforms=("tpu",))
    with pytest.raises(DifferentiationError, match="zeroes has no derivative"):
        jax.grad(lambda x: warp_callable(zeroes)(x)[0].sum())(X)
    for shape in ({"output_dims": 3}, {"output_dims": {"out": 3}}):
        assert [each.shape for each in warp_callable(zero_outputs)(X, **shape)] == [(3,)]


def zeroing(dtype, is_used):
    def used(a: "wp.array(dtype=dtype)", out: "wp.array(dtype=dtype)"):
        out.fill_(dtype(0))

    def unused(a: "wp.array(dtype=dtype)", out: "wp.array(dtype=dtype)"):
        out.zero_()

    return used if is_used else unused


def test_annotations_that_are_text_may_name_variables_of_a_closure():
    for dtype in (wp.float32, wp.int32):
        assert warp_callable(zeroing(dtype, True))(jnp.ones(3, dtype.__name__))[0].tolist() == [0] * 3
    with pytest.raises(KernelTypeError, match=r"refers to 'dtype', which is unknown .* Use dtype in the body"):
        warp_callable(zeroing(wp.float32, False))


def zero_outputs(a: FLOATS, out: FLOATS):
    out.zero_()
