"""warp_callable with arrays from outside, arrays of data, and loops and branches: as Warp's own run of the function."""

import types
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bridge import BridgeError, PlatformError, RecordingError, warp_callable
from suites.kernels.warp.blocks import wp
from suites.unit.bridge.kernels import exported
from suites.unit.bridge.test_warp_callable import BATCH, FLOATS, X, add
from suites.unit.bridge.warp_kernels import increment

COUNTS = wp.array(dtype=int)


@wp.kernel
def count_down(left: COUNTS):
    left[0] -= 1


@wp.kernel
def exceeds(values: FLOATS, limit: float, flag: COUNTS):
    flag[0] = wp.where(values[0] > limit, 1, 0)


@wp.kernel
def halve(values: FLOATS):
    i = wp.tid()
    values[i] = 0.5 * values[i]


def outside(size=8, value=0.0):
    return wp.full(size, value, dtype=float, device="cpu")


SCRATCH, STATE, MODEL, NUMBERS = outside(), outside(), outside(8, 1.5), np.arange(8.0)


def through_scratch(a: FLOATS, out: FLOATS):
    wp.launch(add, dim=8, inputs=[a, a], outputs=[SCRATCH])
    wp.copy(out, SCRATCH)


def reuses_scratch(a: FLOATS, out: FLOATS):
    SCRATCH.zero_()
    for _ in range(3):
        wp.launch(add, dim=8, inputs=[a, SCRATCH], outputs=[SCRATCH])
    SCRATCH[4:].fill_(2.0)
    wp.copy(out[::2], SCRATCH[::2])
    wp.copy(out[1::2], SCRATCH[1::2])


def reads_model(a: FLOATS, out: FLOATS):
    wp.launch(add, dim=8, inputs=[a, MODEL], outputs=[out])


def adds_data(a: FLOATS, out: FLOATS):
    data = wp.array(NUMBERS, dtype=float)
    wp.launch(add, dim=8, inputs=[a, data], outputs=[out])
    wp.launch(increment, dim=8, inputs=[data])
    wp.launch(add, dim=8, inputs=[out, data], outputs=[out])


def nested(a: FLOATS, out: FLOATS):
    rounds, steps = wp.full(1, 3, dtype=int), wp.empty(1, dtype=int)

    def step():
        wp.launch(increment, dim=8, inputs=[out])
        wp.launch(count_down, dim=1, inputs=[steps])

    def round_of():
        steps.fill_(2)
        wp.capture_while(steps, step)
        wp.launch(halve, dim=8, inputs=[out])
        wp.launch(count_down, dim=1, inputs=[rounds])

    wp.copy(out, a)
    wp.capture_while(rounds, round_of)


def never(a: FLOATS, out: FLOATS):
    wp.copy(out, a)
    wp.capture_while(wp.zeros(1, dtype=int), lambda: out.fill_(3.0))
    wp.capture_if(wp.zeros(1, dtype=int), on_true=lambda: out.fill_(4.0))
    wp.capture_if(wp.full(1, 7, dtype=int), on_false=lambda: out.fill_(5.0))


def chooses_in_a_loop(a: FLOATS, out: FLOATS):
    left, flag = wp.full(1, 5, dtype=int), wp.empty(1, dtype=int)

    def body():
        wp.launch(exceeds, dim=1, inputs=[out, 1.0], outputs=[flag])
        less = lambda: wp.launch(halve, dim=8, inputs=[out])  # noqa: E731
        wp.capture_if(flag, less, lambda: wp.launch(increment, dim=8, inputs=[out]))
        wp.launch(count_down, dim=1, inputs=[left])

    wp.copy(out, a)
    wp.capture_while(left, body)


FUNCTIONS = [through_scratch, reuses_scratch, reads_model, adds_data, nested, never, chooses_in_a_loop]


def of_warp(function, row):
    """What Warp itself computes."""
    given, out = wp.array(np.asarray(row), dtype=float, device="cpu"), outside()
    with wp.ScopedDevice("cpu"):
        function(given, out)
    return out.numpy()


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda each: each.__name__)
def test_a_function_does_what_it_does_in_warp(function):
    call, rows = warp_callable(function), [of_warp(function, row) for row in BATCH]
    np.testing.assert_array_equal([call(row)[0] for row in BATCH], rows)  # a batch of calls sees no state
    np.testing.assert_array_equal(jax.jit(call)(BATCH[1])[0], rows[1])
    np.testing.assert_array_equal(jax.jit(jax.vmap(call))(BATCH)[0], rows)
    _, scanned = jax.jit(lambda rows: jax.lax.scan(lambda _, row: (None, call(row)[0]), None, rows))(BATCH)
    np.testing.assert_array_equal(scanned, rows)


def accumulates(a: FLOATS, out: FLOATS):
    wp.launch(add, dim=8, inputs=[a, STATE], outputs=[STATE])
    wp.copy(out, STATE)


def test_state_persists_over_calls_which_jax_neither_drops_nor_merges():
    STATE.zero_()
    call = warp_callable(accumulates)
    call(X)
    jax.block_until_ready(jax.jit(lambda x: (call(x), call(x), x)[2])(X))
    np.testing.assert_allclose(call(X)[0], 4 * X, rtol=1e-6)
    np.testing.assert_allclose(STATE.numpy(), 4 * X, rtol=1e-6)
    (rows,) = jax.jit(jax.vmap(call))(BATCH)
    np.testing.assert_allclose(rows[-1], 4 * X + BATCH.sum(0), rtol=1e-5)


def test_scratch_works_under_checkpoint_where_the_user_says_that_it_is_no_state():
    function = jax.custom_vjp(lambda x: warp_callable(through_scratch, has_side_effect=False)(x)[0])
    function.defvjp(lambda x: (function(x), None), lambda _, ct: (2 * ct,))
    np.testing.assert_array_equal(jax.grad(jax.checkpoint(lambda x: function(x).sum()))(X), np.full(8, 2))


def test_calls_that_share_scratch_run_one_after_another():
    size = 200_000
    shared = outside(size)

    def repeats(a: FLOATS, out: FLOATS):
        wp.copy(shared, a)
        for _ in range(20):
            wp.launch(increment, dim=size, inputs=[shared])
        wp.copy(out, shared)

    call = jax.jit(warp_callable(repeats))
    with ThreadPoolExecutor(4) as pool:
        for at, (result,) in enumerate(pool.map(lambda at: call(jnp.full(size, float(at))), range(40))):
            assert (np.asarray(result) == at + 20).all()


def test_an_array_that_was_replaced_is_seen_by_the_next_call_and_not_by_a_compiled_program():
    solver = types.SimpleNamespace(data=types.SimpleNamespace(offset=outside(8, 1.0)), runs=0)

    def shifts(a: FLOATS, out: FLOATS):
        solver.runs += 1
        wp.launch(add, dim=8, inputs=[a, solver.data.offset], outputs=[out])

    call, first = warp_callable(shifts), solver.data.offset
    compiled = jax.jit(call)
    np.testing.assert_array_equal(compiled(X)[0], X + 1)
    solver.data.offset = outside(8, 2.0)
    for _ in range(2):
        np.testing.assert_array_equal(call(X)[0], X + 2)
        np.testing.assert_array_equal(call(np.asarray(X))[0], X + 2)
    np.testing.assert_array_equal(jax.jit(lambda x: call(x)[0])(X), X + 2)
    solver.data = types.SimpleNamespace(offset=first)
    np.testing.assert_array_equal(call(X)[0], X + 1)
    first.fill_(5.0)
    runs = solver.runs
    np.testing.assert_array_equal(compiled(X)[0], X + 5)  # the array's memory is read where it is
    assert solver.runs == runs


def test_the_memory_of_an_array_from_outside_lives_as_long_as_the_recording():
    holder = [outside(1000, 3.0)]

    def copies(a: FLOATS, out: FLOATS):
        wp.copy(out, holder[0], count=8)

    compiled = jax.jit(warp_callable(copies))
    compiled(X)
    holder.clear()
    others = [outside(1000, -1.0) for _ in range(50)]
    np.testing.assert_array_equal(compiled(X)[0], np.full(8, 3))
    del others


def test_data_are_those_of_the_trace():
    numbers = np.ones(8, np.float32)

    def adds(a: FLOATS, out: FLOATS):
        wp.launch(add, dim=8, inputs=[a, wp.array(numbers, dtype=float)], outputs=[out])

    call = warp_callable(adds)
    call(X)
    numbers[:] = 7
    np.testing.assert_array_equal(call(X)[0], X + 1)


def gives_a_graph(a: FLOATS, out: FLOATS):
    wp.capture_while(wp.zeros(1, dtype=int), 3)


def test_what_cannot_be_done_is_said_in_one_line():
    with pytest.raises(BridgeError, match=r"^through_scratch cannot be exported: .* an array that was not passed"):
        exported(warp_callable(through_scratch), X)
    with pytest.raises(RecordingError, match=r"passes a graph to warp\.capture_if or warp\.capture_while"):
        warp_callable(gives_a_graph)(X)
    mesh = jax.make_mesh((4,), ("d",), devices=jax.devices("cpu")[:4], axis_types=(jax.sharding.AxisType.Auto,))
    rows = jax.device_put(jnp.stack([X] * 4), jax.NamedSharding(mesh, jax.P("d")))
    with pytest.raises(PlatformError, match=r"^through_scratch cannot run on 4 devices: it writes to arrays that were"):
        jax.jit(jax.vmap(warp_callable(through_scratch)))(rows)
    np.testing.assert_array_equal(jax.jit(jax.vmap(warp_callable(reads_model)))(rows)[0], rows + 1.5)
    np.testing.assert_array_equal(MODEL.numpy(), np.full(8, 1.5))
