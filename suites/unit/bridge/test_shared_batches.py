"""vmap_method="parallel": two elements that wait for each other are computed by two threads of XLA, or both give up."""

import jax
import jax.export
import jax.numpy as jnp
import numba
import numpy as np
import pytest

from bridge import debug_mode, export_checks, jax_kernel, numba_kernel
from bridge.ffi.native.words import add_atomically, load_atomically, native
from suites.kernels.warp.blocks import wp

MEETING = np.zeros(1, np.int64)
PLACE = MEETING.ctypes.data
PATIENT, LONG_ENOUGH, SHORT = 2_000_000_000, 50_000_000, 1000
ONE = jax.ShapeDtypeStruct((1,), np.float32)
X = jnp.full((2, 1), 2.0**-126)  # the kernels halve it: the result depends on settings of the thread that runs them


@native
def met(spins):
    """Whether another thread comes while this one waits. It takes some time, or later batches would not be shared."""
    add_atomically(PLACE, 0, 1)
    there = False
    for each in range(spins):
        there = load_atomically(PLACE, 0) >= 2
        if there and each > 100_000:
            break
    return there


@numba.njit
def meets(spins, x, out):
    out[0] = x[0] / 2 if met(spins[0]) else 9


@numba.njit(parallel=True)
def with_loops(spins, x, out):
    for i in numba.prange(2):
        if i == 0:
            out[0] = x[0] / 2 if met(spins[0]) else 9


@numba.njit
def meets_and_raises(spins, x, out):
    out[0] = x[0]
    raise ValueError("both met" if met(spins[0]) else "alone")


@numba.njit
def counts(x, out):
    out[0] = add_atomically(PLACE, 0, 1)


@numba.njit
def adds(x, y, out):
    for i in range(out.size):
        out[i] = x[i] + y[i]


@wp.func_native(
    "auto place = (long long*)address; __atomic_fetch_add(place, 1, 5);"
    "bool there = false; for (int i = 0; i < spins && !(there && i > 100000); ++i)"
    "there = __atomic_load_n(place, 5) >= 2; return there ? 1.0f : 0.0f;"
)
def met_in_warp(address: wp.int64, spins: wp.int32) -> wp.float32: ...


@wp.kernel
def meets_in_warp(
    place: wp.int64, spins: wp.array(dtype=wp.int32), x: wp.array(dtype=float), out: wp.array(dtype=float)
):
    out[0] = wp.where(met_in_warp(place, spins[0]) == 1.0, x[0] / 2.0, 9.0)


def in_warp(vmap_method):
    call = jax_kernel(meets_in_warp, launch_dims=1, output_dims=1, vmap_method=vmap_method)
    return lambda spins, x: call(PLACE, spins, x)[0]


KERNELS = {
    "numba": lambda method: numba_kernel(meets, ONE, vmap_method=method),
    "loops": lambda method: numba_kernel(with_loops, ONE, vmap_method=method),
    "warp": in_warp,
}


def together(call, x=X, spins=PATIENT):
    """Calls a kernel for each element of a batch."""
    MEETING[:] = 0
    return np.asarray(jax.vmap(call, in_axes=(None, 0))(jnp.array([spins], np.int32), x))


@pytest.mark.parametrize("kind", KERNELS)
def test_threads_share_a_batch_if_asked_to_except_for_a_kernel_whose_loops_they_share(kind):
    (first,), (second,) = alone = together(KERNELS[kind](None), spins=SHORT)
    assert first == 9
    assert second != 9
    for _ in range(5):
        if kind == "loops":
            # Another thread would come within these spins.
            np.testing.assert_array_equal(together(KERNELS[kind]("parallel"), spins=LONG_ENOUGH), alone)
        else:
            np.testing.assert_array_equal(together(KERNELS[kind]("parallel")), [[second], [second]])


def test_a_kernel_with_a_side_effect_sees_its_batch_in_order():
    call = numba_kernel(counts, ONE, vmap_method="parallel", has_side_effect=True)
    MEETING[:] = 0
    assert jax.vmap(call)(jnp.zeros((500, 1))).ravel().tolist() == [*range(500)]


def test_two_elements_that_raise_fail_the_call_with_one_error_and_leave_nothing_behind():
    raises, call = (numba_kernel(each, ONE, vmap_method="parallel") for each in (meets_and_raises, meets))
    for _ in range(5):
        with pytest.raises(jax.errors.JaxRuntimeError, match="meets_and_raises raised ValueError: both met"):
            together(raises)
        assert (together(call) != 9).all()


@pytest.mark.parametrize("shape", [(0,), (1,), (3,), (1000,), (2, 3), (0, 4), (300, 5)])
def test_each_element_of_a_batch_of_any_shape_gets_its_result(shape):
    call = numba_kernel(adds, lambda x, y: jax.ShapeDtypeStruct(x.shape, x.dtype), vmap_method="parallel")
    function = call
    for _ in shape:
        function = jax.vmap(function, in_axes=(0, None), out_axes=-1)
    x = np.arange(np.prod(shape, dtype=int) * 3, dtype=np.float32).reshape(*shape, 3)
    expected = np.moveaxis(x + np.arange(1, 4), -1, 0).transpose(0, *range(len(shape), 0, -1))
    for _ in range(3):
        np.testing.assert_array_equal(jax.jit(function)(x, jnp.arange(1.0, 4)), expected)


def test_devices_exports_and_debug_mode_share_batches():
    call = jax.vmap(
        numba_kernel(adds, lambda x, y: jax.ShapeDtypeStruct(x.shape, x.dtype), vmap_method="parallel"), (0, None)
    )
    x, y = jnp.arange(24.0).reshape(8, 3), jnp.arange(3.0)
    program = jax.export.export(jax.jit(call), platforms=["cpu"], disabled_checks=export_checks())(x, y)
    assert "@bridge_cpu_parallel" in program.mlir_module()
    mesh = jax.make_mesh((4,), ("d",), devices=jax.devices("cpu")[:4])
    spread = jax.jit(call)(jax.device_put(x, jax.NamedSharding(mesh, jax.P("d"))), y)
    assert len(spread.sharding.device_set) == 4
    for result in (spread, jax.export.deserialize(program.serialize()).call(x, y)):
        np.testing.assert_array_equal(result, x + y)
    with debug_mode():
        np.testing.assert_array_equal(jax.jit(call)(x, y), x + y)
