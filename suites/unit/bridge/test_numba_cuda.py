"""numba_cuda_kernel and numba_cuda_callable on a GPU; without one, what they say about it."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bridge
from bridge import (
    KernelCompileError,
    KernelTypeError,
    LaunchError,
    RecordingError,
    SignatureError,
    numba_cuda_callable,
    numba_cuda_kernel,
)
from bridge.languages.numba_cpu.njit import DTYPES
from suites.unit.bridge.cuda_examples import HAS_GPU, OUT, N, absolute, cuda, gpu, run_threads, square

PLATFORM = "cuda" if HAS_GPU else "cpu"
Spec = jax.ShapeDtypeStruct


@cuda.jit
def add(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + y[i]


@cuda.jit
def increment(x, out):
    i = cuda.grid(1)
    if i < x.size:
        x[i] += 1


@cuda.jit
def copy(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i]


@pytest.mark.skipif(HAS_GPU, reason="there is an NVIDIA GPU")
@pytest.mark.parametrize(
    "wrap", [lambda: numba_cuda_kernel(add, OUT, launch_dims=N), lambda: numba_cuda_callable(absolute, OUT)]
)
def test_without_a_gpu_it_is_an_import_error_that_says_so(wrap):
    with pytest.raises(ImportError, match="no NVIDIA GPU"):
        wrap()


@gpu
class TestKernel:
    X = np.linspace(-3, 3, N, dtype=np.float32)

    def test_eager_jit_and_control_flow(self):
        x, y = jnp.asarray(self.X), jnp.ones(N)
        call = numba_cuda_kernel(add, OUT, launch_dims=N)
        np.testing.assert_array_equal(call(x, y), self.X + 1)
        np.testing.assert_array_equal(jax.jit(call)(x, y), self.X + 1)
        np.testing.assert_array_equal(call.lower(x, y).compile()(x, y), self.X + 1)
        steps = jnp.zeros(N)
        np.testing.assert_array_equal(jax.lax.fori_loop(0, 5, lambda _, c: call(c, y), steps), np.full(N, 5))
        np.testing.assert_array_equal(jax.lax.scan(lambda c, _: (call(c, y), None), steps, length=4)[0], np.full(N, 4))
        np.testing.assert_array_equal(
            jax.lax.while_loop(lambda c: c[0] < 3, lambda c: call(c, y), steps), np.full(N, 3)
        )
        np.testing.assert_array_equal(jax.lax.cond(True, call, lambda a, b: a, steps, y), np.ones(N))

    def test_a_chain_that_xla_records_into_a_graph(self):
        call = numba_cuda_kernel(add, OUT, grid=4, block=256)

        @jax.jit
        def chain(x, y):
            for _ in range(50):
                x = call(x, y)
            return x

        for start in (0.0, 7.0):
            np.testing.assert_array_equal(chain(jnp.full(N, start), jnp.ones(N)), np.full(N, start + 50))

    def test_vmap_over_any_axis_nested_and_with_unbatched_operands(self):
        call = numba_cuda_kernel(add, Spec((7,), np.float32), launch_dims=7)
        xs, ys = jnp.arange(7.0 * 3).reshape(7, 3), jnp.arange(2.0 * 7).reshape(2, 7)
        nested = jax.jit(jax.vmap(jax.vmap(call, (1, None)), (None, 0), out_axes=1))
        np.testing.assert_array_equal(nested(xs, ys), xs.T[:, None] + ys[None])
        assert nested.lower(xs, ys).compile().as_text().count('custom_call_target="bridge_cuda"') == 1

    @pytest.mark.parametrize(
        "dtype",
        [*DTYPES, "float16", "bfloat16"],
    )
    def test_every_dtype(self, dtype):
        with jax.enable_x64(True):
            x = jnp.asarray(np.arange(7) % 2).astype(dtype)
            result = numba_cuda_kernel(copy, Spec((7,), jnp.dtype(dtype)), launch_dims=7)(x)
            assert result.dtype == x.dtype
            np.testing.assert_array_equal(result, x)

    def test_two_and_three_dimensions(self):
        @cuda.jit
        def double2(x, out):
            i, j = cuda.grid(2)
            if i < x.shape[0] and j < x.shape[1]:
                out[i, j] = 2 * x[i, j]

        @cuda.jit
        def double3(x, out):
            i, j, k = cuda.grid(3)
            if i < x.shape[0] and j < x.shape[1] and k < x.shape[2]:
                out[i, j, k] = 2 * x[i, j, k]

        for kernel, shape in ((double2, (33, 65)), (double3, (5, 17, 9))):
            x = jnp.arange(float(math.prod(shape))).reshape(shape)
            np.testing.assert_array_equal(numba_cuda_kernel(kernel, x, launch_dims=shape)(x), 2 * x)
            np.testing.assert_array_equal(
                numba_cuda_kernel(kernel, x, launch_dims=shape, threads_per_block=100)(x), 2 * x
            )

    def test_scalars_and_empty_arrays(self):
        @cuda.jit
        def double(x, out):
            if cuda.grid(1) == 0:
                out[()] = 2 * x[()]

        assert float(numba_cuda_kernel(double, Spec((), np.float32), grid=1, block=1)(3.0)) == 6
        assert numba_cuda_kernel(copy, Spec((0,), np.float32), launch_dims=0)(jnp.zeros(0)).shape == (0,)

    def test_static_and_dynamic_shared_memory_beyond_48_kib(self):
        import numba

        @cuda.jit
        def reverse(x, out):
            shared = cuda.shared.array(0, numba.float32)
            t = cuda.threadIdx.x
            shared[t + 20000] = x[t]
            cuda.syncthreads()
            out[t] = shared[20000 + x.size - 1 - t]

        x = jnp.arange(256.0)
        call = numba_cuda_kernel(reverse, x, grid=1, block=256, shared_mem=100_000)
        np.testing.assert_array_equal(call(x), x[::-1])
        with pytest.raises(LaunchError, match="1000000 bytes of dynamic"):
            numba_cuda_kernel(reverse, x, grid=1, block=256, shared_mem=1_000_000)(x)

    def test_aliases_share_a_donated_buffer_and_copy_one_still_needed(self):
        call = numba_cuda_kernel(increment, OUT, launch_dims=N, input_output_aliases={0: 0})
        x = jnp.asarray(self.X)
        np.testing.assert_array_equal(call(x), self.X + 1)
        np.testing.assert_array_equal(x, self.X)
        donated = x + 0
        pointer = donated.unsafe_buffer_pointer()
        result = jax.jit(lambda x: call(x), donate_argnums=0)(donated)
        assert result.unsafe_buffer_pointer() == pointer
        np.testing.assert_array_equal(result, self.X + 1)
        np.testing.assert_array_equal(jax.vmap(call)(jnp.stack([x, x])), np.stack([self.X + 1] * 2))

    def test_launches_over_a_limit_or_of_nothing(self):
        x = jnp.asarray(self.X)
        with pytest.raises(LaunchError, match="2048 threads, but this kernel can have at most 1024"):
            numba_cuda_kernel(copy, OUT, grid=1, block=2048)(x)
        with pytest.raises(LaunchError, match="launches nothing"):
            numba_cuda_kernel(copy, OUT, launch_dims=0)(x)
        with pytest.raises(LaunchError, match="has 70000 in y"):
            numba_cuda_kernel(copy, OUT, grid=(1, 70000), block=1)(x)

    def test_bad_kernels_and_arguments(self):
        @cuda.jit
        def writes(x, out):
            x[0] = 1

        @cuda.jit
        def wrong(x, out):
            out[0] = x.no_such_attribute

        x = jnp.asarray(self.X)
        with pytest.raises(KernelCompileError, match="Inputs are read-only"):
            numba_cuda_kernel(writes, OUT, launch_dims=N)(x)
        with pytest.raises(
            KernelCompileError, match=r"(?s)cannot compile wrong \(.*test_numba_cuda\.py.*no_such_attribute"
        ):
            numba_cuda_kernel(wrong, OUT, launch_dims=N)(x)
        with pytest.raises(KernelTypeError, match=r"expected a function decorated with numba\.cuda\.jit"):
            numba_cuda_kernel(lambda x, out: None, OUT, launch_dims=N)
        with pytest.raises(AssertionError):
            numba_cuda_kernel(3, OUT, launch_dims=N)
        with pytest.raises(SignatureError, match="got 1 inputs"):
            numba_cuda_kernel(add, OUT, launch_dims=N)(x)

    def test_explicit_signatures(self):
        @cuda.jit("void(float32[:], float32[:])")
        def triple(x, out):
            i = cuda.grid(1)
            if i < out.size:
                out[i] = 3 * x[i]

        x = jnp.asarray(self.X)
        np.testing.assert_array_equal(numba_cuda_kernel(triple, OUT, launch_dims=N)(x), np.float32(3) * self.X)
        with pytest.raises(KernelCompileError, match="triple is declared for"):
            numba_cuda_kernel(triple, Spec((N,), np.int32), launch_dims=N)(x.astype(np.int32))

    def test_threads(self):
        call, wrong = numba_cuda_kernel(add, OUT, launch_dims=N), []

        def work(k):
            for _ in range(100):
                if not np.array_equal(call(jnp.asarray(self.X), jnp.full(N, k)), self.X + np.float32(k)):
                    wrong.append(k)

        run_threads(work)
        assert wrong == []

    def test_export_for_cuda(self):
        call = numba_cuda_kernel(add, OUT, launch_dims=N)
        exported = jax.export.export(jax.jit(call), platforms=("cuda",), disabled_checks=bridge.export_checks())(
            OUT, OUT
        )
        again = jax.export.deserialize(exported.serialize())
        np.testing.assert_array_equal(again.call(jnp.asarray(self.X), jnp.ones(N)), self.X + 1)

    def test_every_device_runs_it(self):
        devices = jax.devices("cuda")
        if len(devices) < 2:
            pytest.skip("there is one GPU")
        call = numba_cuda_kernel(add, OUT, launch_dims=N)
        for device in devices:
            result = call(jax.device_put(self.X, device), jax.device_put(np.ones(N, np.float32), device))
            assert result.devices() == {device}
            np.testing.assert_array_equal(result, self.X + 1)

    def test_shard_map_over_all_devices(self):
        count = len(jax.devices("cuda"))
        mesh = jax.sharding.Mesh(np.array(jax.devices("cuda")), ("i",))
        P = jax.sharding.PartitionSpec
        call = numba_cuda_kernel(add, Spec((8,), np.float32), launch_dims=8)
        run = jax.jit(jax.shard_map(call, mesh=mesh, in_specs=(P("i"), P()), out_specs=P("i"), check_vma=True))
        x = jnp.arange(8.0 * count)
        np.testing.assert_array_equal(run(x, jnp.ones(8)), np.arange(8.0 * count) + 1)


@gpu
@pytest.mark.parametrize("replay", [False, True], ids=["each call", "replay"])
class TestCallable:
    X = np.linspace(-5, 5, N, dtype=np.float32)

    def test_two_kernels_and_a_temporary_under_every_transformation(self, replay):
        call, x = numba_cuda_callable(absolute, OUT, replay=replay), jnp.asarray(self.X)
        expected = np.abs(self.X)
        np.testing.assert_allclose(call(x), expected, rtol=1e-6)
        np.testing.assert_allclose(jax.jit(call)(x), expected, rtol=1e-6)
        np.testing.assert_allclose(jax.lax.scan(lambda c, _: (call(c), None), x, length=5)[0], expected, rtol=1e-6)
        xs = jnp.stack([x, 2 * x, 3 * x], axis=1)
        np.testing.assert_allclose(jax.jit(jax.vmap(call, in_axes=1))(xs), np.abs(xs.T), rtol=1e-6)

    def test_a_temporary_lives_until_its_work_is_done(self, replay):
        call, wrong = numba_cuda_callable(absolute, OUT, replay=replay), []

        def work(k):
            for _ in range(100):
                x = jnp.asarray(self.X) * k
                if not np.allclose(call(call(x)), np.abs(self.X) * k, rtol=1e-6):
                    wrong.append(k)

        run_threads(work)
        assert wrong == []

    def test_several_outputs_and_scalar_parameters(self, replay):
        @cuda.jit
        def split(x, offset, scale, positive, negative):
            i = cuda.grid(1)
            if i < x.size:
                positive[i] = max(scale * x[i] + offset, 0.0)
                negative[i] = min(scale * x[i] + offset, 0.0)

        def run(x, positive, negative, stream):
            split[4, 256, stream](x, 1, 2.0, positive, negative)

        positive, negative = numba_cuda_callable(run, [OUT, OUT], replay=replay)(jnp.asarray(self.X))
        np.testing.assert_allclose(positive, np.maximum(2 * self.X + 1, 0), rtol=1e-6)
        np.testing.assert_allclose(negative, np.minimum(2 * self.X + 1, 0), rtol=1e-6)

    def test_an_exception_is_the_callers(self, replay):
        def fails(x, out, stream):
            raise ValueError("mine")

        error, message = (RecordingError, "ValueError: mine") if replay else (
            jax.errors.JaxRuntimeError, "fails raised ValueError: mine")  # fmt: skip
        with pytest.raises(error, match=message):
            numba_cuda_callable(fails, OUT, replay=replay)(jnp.asarray(self.X)).block_until_ready()

    def test_arguments_must_fit(self, replay):
        with pytest.raises(SignatureError, match=r"absolute\(x, out\) got 2 inputs"):
            numba_cuda_callable(absolute, OUT, replay=replay)(self.X, self.X)
        with pytest.raises(KernelTypeError, match=r"For one kernel .* use numba_cuda_kernel"):
            numba_cuda_callable(square, OUT, replay=replay)

    def test_each_device_runs_it(self, replay):
        call = numba_cuda_callable(absolute, OUT, replay=replay)
        for device in jax.devices("cuda"):
            result = call(jax.device_put(self.X, device))
            assert result.devices() == {device}
            np.testing.assert_allclose(result, np.abs(self.X), rtol=1e-6)


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


BLOCKS, THREADS = 264, 64
TOTAL_OUTS = [Spec((BLOCKS,), np.float32), Spec((BLOCKS * THREADS,), np.float32)]


@gpu
class TestGridsThatSynchronise:
    X = np.arange(100_000, dtype=np.float32) % 7
    EXPECTED = float(X.sum())

    def total(self):
        return numba_cuda_kernel(total, TOTAL_OUTS, grid=BLOCKS, block=THREADS)

    def test_each_block_sees_what_all_others_wrote(self):
        call = self.total()
        for _ in range(20):
            np.testing.assert_array_equal(call(self.X)[1], self.EXPECTED)
        stacked = jnp.stack([self.X, 2 * self.X])
        np.testing.assert_array_equal(
            jax.jit(jax.vmap(call))(stacked)[1],
            [[self.EXPECTED] * THREADS * BLOCKS, [2 * self.EXPECTED] * THREADS * BLOCKS],
        )

    def test_in_loops_and_chains_that_xla_records_into_graphs(self):
        call = self.total()

        @jax.jit
        def chain(x):
            for _ in range(30):
                x = x + (call(x)[1][0] - x.sum())
            return x

        for _ in range(3):
            np.testing.assert_array_equal(chain(jnp.asarray(self.X)), self.X)
        looped = jax.lax.fori_loop(0, 30, lambda _, x: x + (call(x)[1][0] - x.sum()), jnp.asarray(self.X))
        np.testing.assert_array_equal(looped, self.X)

    @pytest.mark.parametrize("replay", [False, True])
    def test_in_callables(self, replay):
        def run(x, partial, out, stream):
            total[BLOCKS, THREADS, stream](x, partial, out)

        call = numba_cuda_callable(run, TOTAL_OUTS, replay=replay)
        for _ in range(20):
            np.testing.assert_array_equal(jax.jit(call)(self.X)[1], self.EXPECTED)

    @pytest.mark.parametrize("replay", [False, True])
    def test_more_blocks_than_run_at_once_are_refused(self, replay):
        outs = [Spec((100_000,), np.float32), Spec((100_000 * 64,), np.float32)]
        with pytest.raises(
            LaunchError, match=r"its 100000 blocks must all run at once, but on this device at most \d+"
        ):
            numba_cuda_kernel(total, outs, grid=100_000, block=64)(self.X)

        def run(x, partial, out, stream):
            total[100_000, 64, stream](x, partial, out)

        with pytest.raises(
            (RecordingError, jax.errors.JaxRuntimeError), match=r"its 100000 blocks must all run at once"
        ):
            jax.block_until_ready(numba_cuda_callable(run, outs, replay=replay)(self.X))

    def test_in_a_program_that_carries_the_code(self):
        program = bridge.export_self_contained(self.total())(Spec(self.X.shape, np.float32))
        again = jax.export.deserialize(program.serialize())
        np.testing.assert_array_equal(again.call(jnp.asarray(self.X))[1], self.EXPECTED)


@cuda.jit(debug=True, opt=False)
def strict_root(x, out):
    i = cuda.grid(1)
    if i < out.size:
        if x[i] < 0:
            raise ValueError("negative")
        out[i] = math.sqrt(x[i])


@gpu
class TestExceptionsOfTheDevice:
    GOOD = np.arange(N, dtype=np.float32)
    BAD = np.where(GOOD == 700, -1, GOOD)
    MESSAGE = r"raised ValueError: thread \(188, 0, 0\) of block \(2, 0, 0\), .*strict_root.*: negative"

    def calls(self):
        def run(x, out, stream):
            strict_root[4, 256, stream](x, out)

        def run_by_numba(x, out, stream):
            [strict_root][0][4, 256, stream](x, out)

        return [
            numba_cuda_kernel(strict_root, OUT, launch_dims=N),
            numba_cuda_callable(run, OUT),
            numba_cuda_callable(run_by_numba, OUT),
        ]

    @pytest.mark.parametrize("which", [0, 1, 2], ids=["kernel", "callable", "callable that hides it"])
    def test_they_reach_the_caller_of_this_call(self, which):
        call = self.calls()[which]
        for _ in range(3):
            np.testing.assert_allclose(call(self.GOOD), np.sqrt(self.GOOD), rtol=1e-6)
            with pytest.raises(jax.errors.JaxRuntimeError, match=self.MESSAGE):
                jax.block_until_ready(jax.jit(call)(self.BAD))
            with pytest.raises(jax.errors.JaxRuntimeError, match=self.MESSAGE):
                jax.block_until_ready(jax.vmap(call)(np.stack([self.GOOD, self.BAD])))

    def test_a_failing_call_does_not_fail_a_concurrent_good_one(self):
        call, wrong = self.calls()[0], []

        def work(k):
            for _ in range(50):
                try:
                    jax.block_until_ready(call(self.BAD if k % 2 else self.GOOD))
                except jax.errors.JaxRuntimeError:
                    if k % 2 == 0:
                        wrong.append("good one failed")
                else:
                    if k % 2:
                        wrong.append("bad one passed")

        run_threads(work)
        assert wrong == []

    def test_they_cannot_be_replayed(self):
        def run(x, out, stream):
            strict_root[4, 256, stream](x, out)

        with pytest.raises(RecordingError, match=r"compiled with debug=True.*Pass replay=False"):
            numba_cuda_callable(run, OUT, replay=True)(self.GOOD)

    def test_on_every_device(self):
        call = self.calls()[0]
        for device in jax.devices("cuda"):
            with pytest.raises(jax.errors.JaxRuntimeError, match=self.MESSAGE):
                jax.block_until_ready(call(jax.device_put(self.BAD, device)))
            np.testing.assert_allclose(call(jax.device_put(self.GOOD, device)), np.sqrt(self.GOOD), rtol=1e-6)


@gpu
def test_more_threads_than_an_int_holds():
    size = 3_000_000_000

    @cuda.jit
    def number(out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = i % 101

    result = numba_cuda_kernel(number, Spec((size,), np.int8), launch_dims=size)()
    found = np.asarray(result)
    for i in (0, 2**31 - 1, 2**31, 2**31 + 12345, size - 1):
        assert found[i] == i % 101
