"""numba_cuda_kernel and numba_cuda_callable on a GPU; without one, what they say about it.

The operators of ``suites`` show the transformations on a GPU. Here is what no operator does.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bridge import LaunchError, numba_cuda_callable, numba_cuda_kernel
from bridge.kernel.language import CPU_DTYPES
from suites.unit.bridge.cuda_examples import HAS_GPU, OUT, N, absolute, cuda, gpu, run_threads

PLATFORM = "cuda" if HAS_GPU else "cpu"
Spec = jax.ShapeDtypeStruct
X = np.linspace(-5, 5, N, dtype=np.float32)


@cuda.jit
def add(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + y[i]


@pytest.mark.skipif(HAS_GPU, reason="there is an NVIDIA GPU")
@pytest.mark.parametrize(
    "wrap", [lambda: numba_cuda_kernel(add, OUT, launch_dims=N), lambda: numba_cuda_callable(absolute, OUT)]
)
def test_without_a_gpu_it_is_an_import_error_that_says_so(wrap):
    with pytest.raises(ImportError, match="no NVIDIA GPU"):
        wrap()


@gpu
class TestKernel:
    @pytest.mark.parametrize("dtype", CPU_DTYPES)
    def test_every_dtype_computes(self, dtype):
        with jax.enable_x64(True):
            x = jnp.asarray(np.arange(7) % 2).astype(dtype)
            result = numba_cuda_kernel(add, Spec((7,), jnp.dtype(dtype)), launch_dims=7)(x, x)
            np.testing.assert_array_equal(result, x + x)

    def test_shared_memory_beyond_48_kib_also_in_callables(self):
        @cuda.jit
        def reverse(x, out):
            shared = cuda.shared.array(0, np.float32)
            t = cuda.threadIdx.x
            shared[t + 20000] = x[t]
            cuda.syncthreads()
            out[t] = shared[20000 + x.size - 1 - t]

        def run(x, out, stream):
            reverse[1, 256, stream, 100_000](x, out)

        x = jnp.arange(256.0)
        for call in (
            numba_cuda_kernel(reverse, x, grid=1, block=256, shared_mem=100_000),
            *(numba_cuda_callable(run, x, replay=replay) for replay in (False, True)),
        ):
            np.testing.assert_array_equal(call(x), x[::-1])

    def test_aliases_share_a_donated_buffer_and_copy_one_still_needed(self):
        @cuda.jit
        def increment(x, out):
            i = cuda.grid(1)
            if i < x.size:
                x[i] += 1

        call = numba_cuda_kernel(increment, OUT, launch_dims=N, input_output_aliases={0: 0})
        x = jnp.asarray(X)
        np.testing.assert_array_equal(jax.vmap(call)(jnp.stack([x, x])), np.stack([X + 1] * 2))
        np.testing.assert_array_equal(call(x), X + 1)
        np.testing.assert_array_equal(x, X)
        donated = x + 0
        pointer = donated.unsafe_buffer_pointer()
        assert jax.jit(lambda x: call(x), donate_argnums=0)(donated).unsafe_buffer_pointer() == pointer


@gpu
@pytest.mark.parametrize("replay", [False, True], ids=["each call", "replay"])
def test_a_temporary_lives_until_its_work_is_done(replay):
    call, wrong = numba_cuda_callable(absolute, OUT, replay=replay), []

    def work(k):
        for _ in range(100):
            if not np.allclose(call(call(jnp.asarray(X) * k)), np.abs(X) * k, rtol=1e-6):
                wrong.append(k)

    run_threads(work)
    assert wrong == []


@cuda.jit
def total(x, partial, out):
    """Each block sums a part of ``x``; after the whole grid has done so, each thread sums all parts."""
    block, blocks, thread = cuda.blockIdx.x, cuda.gridDim.x, cuda.threadIdx.x
    if thread == 0:
        part = 0.0
        for i in range(block, x.size, blocks):
            part += x[i]
        partial[block] = part
    cuda.cg.this_grid().sync()
    every = 0.0
    for b in range(blocks):
        every += partial[b]
    out[block * cuda.blockDim.x + thread] = every


@gpu
@pytest.mark.parametrize("which", ["kernel", "each call", "replay"])
def test_grids_that_synchronise(which):
    def call(blocks):
        def run(x, partial, out, stream):
            total[blocks, 64, stream](x, partial, out)

        outs = [Spec((blocks,), np.float32), Spec((blocks * 64,), np.float32)]
        if which == "kernel":
            return numba_cuda_kernel(total, outs, grid=blocks, block=64)
        return numba_cuda_callable(run, outs, replay=which == "replay")

    def step(_, x):
        return x + (call(264)(x)[1][0] - x.sum())

    x = jnp.arange(100_000.0) % 7
    np.testing.assert_array_equal(jax.lax.fori_loop(0, 30, step, x), x)
    np.testing.assert_array_equal(jax.vmap(call(264))(jnp.stack([x, 2 * x]))[1][:, 0], [x.sum(), 2 * x.sum()])
    with pytest.raises((LaunchError, jax.errors.JaxRuntimeError), match=r"its 100000 blocks must all run at once, but"):
        jax.block_until_ready(call(100_000)(x))


@cuda.jit(debug=True, opt=False)
def strict_root(x, out):
    i = cuda.grid(1)
    if i < out.size:
        if x[i] < 0:
            raise ValueError("negative")
        out[i] = math.sqrt(x[i])


def takes_a_root(x, out, stream):
    [strict_root][0][4, 256, stream](x, out)


@gpu
@pytest.mark.parametrize("in_callable", [False, True])
def test_exceptions_of_the_device_reach_the_caller_of_this_call(in_callable):
    good = np.arange(N, dtype=np.float32)
    bad = np.where(good == 700, -1, good)
    call = numba_cuda_callable(takes_a_root, OUT) if in_callable else numba_cuda_kernel(strict_root, OUT, launch_dims=N)
    message = r"raised ValueError: In function 'strict_root', .*tid=\[0, 0, 188\] ctaid=\[0, 0, 2\]: negative"
    wrong = []

    def work(k):
        for _ in range(50):
            try:
                np.testing.assert_allclose(call(bad if k % 2 else good), np.sqrt(good), rtol=1e-6)
            except jax.errors.JaxRuntimeError:
                wrong.extend([k] * (k % 2 == 0))
            else:
                wrong.extend([k] * (k % 2))

    run_threads(work)
    assert wrong == []
    for device in jax.devices("cuda"):
        for x in (bad, np.stack([good, bad])):
            with pytest.raises(jax.errors.JaxRuntimeError, match=message):
                jax.block_until_ready((jax.vmap(call) if x.ndim == 2 else call)(jax.device_put(x, device)))
