"""jax_kernel: inputs do not change, whatever the kernel does, and a kernel that only reads them gets no copies."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bridge import SignatureError, jax_kernel
from bridge.languages.warp.generated import generated
from bridge.languages.warp.inputs import only_read
from suites.kernels.warp.blocks import wp
from suites.unit.bridge import warp_kernels as kernels

ROWS = jnp.arange(1.0, 17.0).reshape(4, 4)


@wp.struct
class Holder:
    rows: kernels.MATRIX
    count: int


@wp.func
def store_into(row: kernels.VECTOR, value: float):
    row[0] = value


@wp.func
def store_deeply(rows: kernels.MATRIX, value: float):
    store_into(rows[0], value)


@wp.func
def row_and_extent(rows: kernels.MATRIX, index: int):
    return rows[index], rows.shape[0]


@wp.func
def store_held(holder: Holder, value: float):
    holder.rows[0, 0] = value


@wp.func_native("""const_cast<float&>(rows.data[0]) = value;""")
def store_natively(rows: kernels.MATRIX, value: float): ...


def alias(x: kernels.MATRIX, out: kernels.VECTOR):
    y = x
    y[wp.tid(), 0] = 100.0


def called_deeply(x: kernels.MATRIX, out: kernels.VECTOR):
    store_deeply(x, 100.0)


def in_a_loop(x: kernels.MATRIX, out: kernels.VECTOR):
    y = out
    for j in range(x.shape[0]):
        y[wp.tid()] = 100.0
        if j > 1:
            y = x[j]


WRITES = (alias, called_deeply, in_a_loop)
"""Kernels whose code shows that they write to x."""


def struct(x: kernels.MATRIX, out: kernels.VECTOR):
    holder = Holder()
    holder.rows = x
    store_held(holder, 100.0)
    out[wp.tid()] = x[0, 0]


def native(x: kernels.MATRIX, out: kernels.VECTOR):
    store_natively(x, 100.0)
    out[wp.tid()] = x[0, 0]


MAY_WRITE = (struct, native)
"""Kernels whose code does not show that they leave x alone. They put 100 into their output."""


@pytest.mark.parametrize("function", WRITES)
def test_a_kernel_that_writes_to_an_input_is_refused(function):
    kernel = kernels.forward_only(function)
    message = rf"{function.__name__}\(x, out\): the kernel writes to its input 'x'.*in_out_argnames=\['x'\]"
    with pytest.raises(SignatureError, match=message):
        jax.eval_shape(jax_kernel(kernel, launch_dims=4), ROWS)
    jax.eval_shape(jax_kernel(kernel, num_outputs=2, in_out_argnames=["x"], launch_dims=4), ROWS)


@pytest.mark.parametrize("function", MAY_WRITE)
def test_a_kernel_that_may_write_to_an_input_gets_a_copy(function):
    call = jax_kernel(kernels.forward_only(function), launch_dims=4)
    both = jnp.stack([ROWS, ROWS])
    for x, run in ((ROWS, call), (ROWS, jax.jit(lambda x: [call(x)[0] + 0 * x[0]])), (both, jax.vmap(call))):
        before = np.array(x)
        assert np.all(np.asarray(run(x)[0])[..., 0] == 100)
        np.testing.assert_array_equal(x, before)
    lowered = jax.jit(call).lower(ROWS)
    assert "output_operand_aliases" in lowered.as_text()
    assert [(out.shape, out.dtype) for out in lowered.out_info] == [((4,), np.float32)]


def reading(x: kernels.MATRIX, n: int, out: kernels.VECTOR):
    i = wp.tid()
    total = float(0.0)  # noqa: UP018 - a variable of Warp, not a constant
    rows = x
    row, extent = row_and_extent(rows, i)
    part = x[0:2]
    for j in range(x.shape[1]):
        if j < n and len(row) > 0:
            total += row[j] + part[0, j]
    total += wp.tile_sum(wp.tile_load(x[i], shape=4))[0]
    out[i] = total + float(extent)


@pytest.mark.parametrize("platform", ["cpu", "cuda"])
def test_a_kernel_that_only_reads_gets_no_copy(platform):
    made = generated(wp.kernel(reading, module="unique"), platform, None)
    for backward in (False, True):
        uses = made.uses(backward=backward)
        assert only_read(uses["x"])
    assert made.uses(backward=False)["out"] == {"array_store"}


def test_the_adjoint_changes_neither_inputs_nor_results():
    """Warp's adjoint runs the functions that a kernel calls once more, and their stores too."""

    @wp.func
    def raise_first(out: kernels.VECTOR, value: float):
        out[0] = out[0] + value

    @wp.kernel(module="unique")
    def accumulate(x: kernels.VECTOR, total: kernels.VECTOR, out: kernels.VECTOR):
        i = wp.tid()
        raise_first(total, x[i])
        out[i] = 2.0 * x[i]

    call = jax_kernel(accumulate, num_outputs=2, in_out_argnames=["total"])
    x, total = jnp.arange(1.0, 4.0), jnp.array([5.0])
    results, pullback = jax.vjp(call, x, total)
    before = [np.array(each) for each in (x, total, *results)]
    for _ in range(2):
        jax.block_until_ready(pullback([jnp.ones(1), jnp.ones(3)]))
        for array, expected in zip((x, total, *results), before, strict=True):
            np.testing.assert_array_equal(array, expected)
    np.testing.assert_array_equal(results[0], [11])
