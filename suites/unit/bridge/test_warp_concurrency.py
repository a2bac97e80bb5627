"""jax_kernel from many threads and on several devices."""

import threading
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bridge import jax_kernel
from bridge.ffi.target import CPU
from bridge.languages.warp.cpu_plan import build_host
from bridge.languages.warp.generated import generated
from bridge.languages.warp.parameters import parameters_of
from bridge.languages.warp.planned import plan_call
from bridge.languages.warp.wrapper_options import Options
from suites.backends.warp_blocks import wp
from suites.unit.bridge import warp_kernels as kernels


def together(count, work):
    """Runs ``work(index)`` in as many threads, all of which start at once; what each returned or raised."""
    start, results = threading.Barrier(count), [None] * count

    def run(index):
        start.wait()
        try:
            results[index] = work(index)
        except Exception as error:
            results[index] = error

    threads = [threading.Thread(target=run, args=(index,)) for index in range(count)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    return results


def test_threads_that_make_the_first_call_at_once_share_one_compilation():
    @wp.kernel(module="unique", enable_backward=False)
    def fresh(x: kernels.VECTOR, out: kernels.VECTOR):
        i = wp.tid()
        out[i] = x[i] + 41.0

    before = len(CPU)
    results = together(8, lambda index: jax_kernel(fresh)(jnp.ones(4))[0].tolist())
    assert results == [[42.0] * 4] * 8
    assert len(CPU) == before + 1


def test_threads_compile_different_kernels_of_one_module_at_once():
    def adding(amount):
        @wp.kernel(enable_backward=False)
        def add(x: kernels.VECTOR, out: kernels.VECTOR):
            i = wp.tid()
            out[i] = x[i] + wp.static(float(amount))

        return add

    made = [adding(index) for index in range(4)]
    results = together(8, lambda index: jax_kernel(made[index % 4])(jnp.full(3, index / 4))[0].tolist())
    assert results == [[index % 4 + index / 4] * 3 for index in range(8)]


def test_threads_instantiate_a_generic_kernel_for_several_types_at_once():
    dtypes = ("float32", "int32", "int8", "uint16", "float16")

    @wp.kernel(module="unique", enable_backward=False)
    def triple(x: wp.array(dtype=Any), out: wp.array(dtype=Any)):
        i = wp.tid()
        out[i] = x[i] + x[i] + x[i]

    def work(index):
        (result,) = jax_kernel(triple)(jnp.full(index + 1, index, dtypes[index]))
        return str(result.dtype), result.tolist()

    assert together(5, work) == [(dtype, [3 * index] * (index + 1)) for index, dtype in enumerate(dtypes)]


def test_a_generic_kernel_is_not_instantiated_while_warp_compiles_its_module(monkeypatch):
    @wp.kernel(module="unique", enable_backward=False)
    def negate(x: wp.array(dtype=Any), out: wp.array(dtype=Any)):
        i = wp.tid()
        out[i] = -x[i]

    compiling, instantiated, too_early = threading.Event(), threading.Event(), []
    launch = wp.launch

    def slow(*args, **options):
        compiling.set()
        too_early.append(instantiated.wait(0.5))
        return launch(*args, **options)

    monkeypatch.setattr(wp, "launch", slow)

    def work(index):
        if index == 0:
            return jax_kernel(negate)(jnp.ones(2))[0].tolist()
        compiling.wait()
        shapes = jax.eval_shape(jax_kernel(negate), jax.ShapeDtypeStruct((2,), jnp.int32))
        instantiated.set()
        return str(shapes[0].dtype)

    assert together(2, work) == [[-1, -1], "int32"]
    assert too_early == [False]


def test_threads_on_all_devices_get_their_own_results():
    devices = jax.devices("cpu")
    call = jax_kernel(kernels.logistic, launch_dims=1000, output_dims=1000)

    def work(index):
        x = jax.device_put(jnp.linspace(0.0, 1.0, 1000), devices[index % len(devices)])
        rates = [jax.device_put(jnp.full(1, float(index + turn)), x.device) for turn in range(20)]
        wrong = [
            turn
            for turn, rate in enumerate(rates)
            if not np.allclose(call(rate, x)[0], (index + turn) * np.asarray(x) * (1 - np.asarray(x)), rtol=1e-6)
        ]
        return wrong

    assert together(8, work) == [[]] * 8


class TestTiles:
    """On the CPU all calls of a tile kernel share its shared memory."""

    COUNT = 40

    def test_threads_on_all_devices_get_their_own_results(self):
        devices, tile = jax.devices("cpu"), kernels.TILE
        dims = {"launch_dims": (self.COUNT, kernels.BLOCK), "output_dims": (self.COUNT, tile, tile)}
        call = jax_kernel(kernels.tile_squares, block_dim=kernels.BLOCK, **dims)

        def work(index):
            matrices = np.random.default_rng(index).integers(0, 9, (self.COUNT, tile, tile)).astype(np.float32)
            given, expected = jax.device_put(matrices, devices[index % len(devices)]), matrices @ matrices
            return sum(not np.array_equal(call(given)[0], expected) for _ in range(10))

        assert together(8, work) == [0] * 8

    @pytest.mark.parametrize(("kernel", "locked"), [("tile_squares", True), ("index3", False)])
    def test_they_take_a_lock_and_other_kernels_none(self, kernel, locked):
        kernel = getattr(kernels, kernel)
        shape, dims = (2, kernels.TILE, kernels.TILE), (2, kernels.BLOCK)
        options = Options(kernel, parameters_of(kernel, 1, ()), dims, shape, kernels.BLOCK, None, False)
        array = jax.ShapeDtypeStruct(shape, np.float32 if locked else np.int32)
        planned = plan_call(options, (), [array])
        code, made = planned.forward_call().code, generated(planned.kernel, "cpu", kernels.BLOCK)
        assert (build_host(made, code.options, code.signature).plan.mutex is not None) is locked
