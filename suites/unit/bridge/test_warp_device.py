"""Warp launches on CUDA, without a GPU: their shape, and what reaches cuLaunchKernel, recorded by a stand-in.

The launches are packed for Warp's CPU device: the same memory but for the machine code's address.
"""

import ctypes
import math
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge import AbiError, LaunchError
from bridge.ffi.cuda import driver
from bridge.ffi.cuda.limits import Limits
from bridge.ffi.kernel_call import KERNEL_CALLS
from bridge.ffi.plans.device import DevicePlan
from bridge.languages.launch_shape import LaunchShape
from bridge.languages.warp import cuda_plan as device
from bridge.languages.warp.adjoint import with_adjoint
from bridge.languages.warp.generated import generated
from bridge.languages.warp.packing import pack
from bridge.languages.warp.parameters import parameters_of
from bridge.languages.warp.planned import plan_call
from bridge.languages.warp.static_values import Static
from bridge.languages.warp.wrapper_options import Options
from suites.backends.warp_blocks import wp
from suites.unit.bridge import warp_kernels as kernels
from suites.unit.bridge.test_device_plan import Recorder

SHAPE = LaunchShape((3, 1, 1), (256, 1, 1), 40)
MOST_BLOCKS = 2**31 - 1


class TestLaunchShape:
    LOOPING, LEAN = SimpleNamespace(grid_stride=True), SimpleNamespace(grid_stride=False)

    @pytest.mark.parametrize(
        ("kernel", "dims", "block_dim", "grid"),
        [
            (LOOPING, (1,), 256, (1, 1, 1)),
            (LOOPING, (256,), 256, (1, 1, 1)),
            (LOOPING, (257,), 256, (2, 1, 1)),
            (LOOPING, (3, 5, 7, 11), 64, (19, 1, 1)),
            (LOOPING, (2**20, 2**18), 256, (2**30, 1, 1)),
            (LOOPING, (2**20, 2**20), 256, (MOST_BLOCKS, 1, 1)),
            (SimpleNamespace(), (2**20, 2**20), 256, (MOST_BLOCKS, 1, 1)),
            (LEAN, (1,), 256, (1, 1, 1)),
            (LEAN, (1000, 8), 8, (1000, 1, 1)),
            (LEAN, (2**24,), 256, (65536, 1, 1)),
            (LEAN, (2**24 + 1,), 256, (65536, 2, 1)),
            (LEAN, (2**24 * 3,), 1024, (16384, 3, 1)),
            (LEAN, (2**24 * 65535,), 256, (65536, 65535, 1)),
            (LEAN, (2**24 * 65535 + 1,), 256, (65536, 65535, 2)),
            (LEAN, (2**24 + 1,), 1000, (16777, 2, 1)),
        ],
    )
    def test_blocks_are_counted_as_warp_does(self, kernel, dims, block_dim, grid):
        assert device.launch_shape(kernel, dims, block_dim, 12) == LaunchShape(grid, (block_dim, 1, 1), 12)

    @given(dims=st.lists(st.integers(1, 2**13), min_size=1, max_size=4), block_dim=st.integers(1, 1024))
    def test_every_thread_has_an_index_that_fits_warps_arithmetic(self, dims, block_dim):
        threads = math.prod(dims)
        looping = device.launch_shape(self.LOOPING, tuple(dims), block_dim, 0)
        assert looping.grid[0] == min(MOST_BLOCKS, -(-threads // block_dim))
        lean = device.launch_shape(self.LEAN, tuple(dims), block_dim, 0)
        x, y, z = lean.grid
        # A lean kernel numbers its threads (z * Y + y) * X * block_dim + x, with x below 2**32 and rows in 32 bits.
        assert x * y * z * block_dim >= threads
        assert x * block_dim <= 2**24 or x == 1
        assert y <= 65535
        assert (y * z - 1) * x * block_dim < threads + y * x * block_dim

    def test_warps_kernels_say_which_they_are(self):
        if not hasattr(kernels.count1, "grid_stride"):
            pytest.skip(f"in Warp {wp.__version__} every kernel loops")
        grids = []
        for choice in (True, False):

            @wp.kernel(module="unique", grid_stride=choice)
            def kernel(out: kernels.INDICES):
                out[wp.tid()] = 1

            grids.append(device.launch_shape(kernel, (2**24 + 1,), 256, 0).grid)
        assert grids == [(65537, 1, 1), (65536, 2, 1)]


def negated(x: kernels.VECTOR, out: kernels.VECTOR):
    i = wp.tid()
    out[i] = -x[i]


@pytest.mark.skipif(not hasattr(wp.config, "default_grid_stride"), reason="in this Warp every kernel loops")
class TestLoopOverTheGrid:
    """Warp's own launcher may start fewer blocks than a kernel needs. The bridge never does."""

    @pytest.mark.parametrize("backward", [False, True])
    @pytest.mark.parametrize("options", [{}, {"grid_stride": False}])
    def test_a_kernel_has_none(self, options, backward):
        assert self.loops({**options, "enable_backward": backward}, {}) == (False, False)

    @pytest.mark.parametrize(
        ("options", "of_module"), [({"grid_stride": True}, {}), ({}, {"default_grid_stride": True})]
    )
    def test_a_kernel_that_asks_for_one_keeps_it(self, options, of_module):
        assert self.loops(options, of_module) == (True, True)

    def loops(self, options, of_module):
        """Whether the code has the loop, and whether the launch counts on it."""
        module = wp.Module("loops", None)
        module.options |= of_module
        made = generated(wp.Kernel(negated, key="negated", module=module, options=options), "cuda", 128)
        return "_idx += " in made.source, made.kernel.grid_stride


def planned(kernel, arrays, num_outputs=1, in_out=(), launch_dims=None, output_dims=None, values=()):
    parameters = parameters_of(kernel, num_outputs, in_out)
    options = Options(kernel, parameters, launch_dims, output_dims, None, None, False)
    given = [p for p in parameters if not p.is_array]
    statics = [Static.of(value, kernel, parameter) for value, parameter in zip(values, given, strict=True)]
    return plan_call(options, statics, [jax.typeof(array) for array in arrays])


def adjoint_code(planned, arrays):
    """The code of the adjoint, from the traced program that makes it."""
    jaxpr = jax.make_jaxpr(lambda *args: jax.vjp(with_adjoint(planned), *args)[1]([jnp.ones_like(r) for r in outs]))
    outs = planned.forward(*arrays)
    calls = [eqn.params["call"] for eqn in jaxpr(*arrays).eqns if eqn.primitive in KERNEL_CALLS]
    return next(call.code for call in calls if call.code.options.backward)


class WarpRecorder(Recorder):
    """Notes the whole memory of each parameter."""

    sizes: list[int]

    def _record(self, handle, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra):
        memory = [ctypes.string_at(parameters[index], size) for index, size in enumerate(self.sizes)]
        self.launches.append(((handle, (gx, gy, gz), (bx, by, bz), shared), memory))
        return self.status


@pytest.fixture(scope="module")
def shared_recorder():
    return WarpRecorder()


@pytest.fixture
def recorder(shared_recorder):
    shared_recorder.launches.clear()
    return shared_recorder


def words_of(launch):
    """The parameters of a launch as it stands, each as bytes."""
    blob = np.array(launch.blob, np.int64).tobytes()
    return [blob[start:] for start in launch.parameters]


class TestLaunch:
    X = jnp.arange(1.0, 6.0)

    @pytest.fixture
    def packed(self):
        code = planned(kernels.scale, [self.X], values=[3.0]).forward_call().code
        return pack(generated(kernels.scale, "cpu", None), code.options, "cpu")

    def test_parameters_lie_one_after_the_other_on_multiples_of_16_bytes(self, packed):
        launch = device._device_launch("scale", (7, 8), SHAPE, packed)
        assert (launch.name, launch.handles) == ("scale", (7, 8))
        assert (launch.grid, launch.block, launch.shared_bytes) == ((3, 1, 1), (256, 1, 1), 40)
        contents = [packed.bounds, *packed.arguments]
        end = 0
        for start, content, memory in zip(launch.parameters, contents, words_of(launch), strict=True):
            assert start % 16 == 0
            assert 0 <= start - end < 16
            assert memory.startswith(content)
            end = start + len(content)
        assert 8 * len(launch.blob) - end < 8

    def test_patches_are_the_words_that_hold_addresses(self, packed):
        launch = device._device_launch("scale", (7,), SHAPE, packed)
        _, factor, _ = packed.arguments
        assert np.frombuffer(factor, np.float32)[0] == 3
        # The first word of an array of Warp is the address of its data.
        starts = [launch.parameters[1], launch.parameters[3]]
        assert [(8 * patch.word, patch.buffer, patch.offset) for patch in launch.patches] == [
            (starts[0], 0, 0),
            (starts[1], 1, 0),
        ]
        made_up = [launch.blob[patch.word] for patch in launch.patches]
        assert len(set(made_up)) == 2
        assert all(address and address % (1 << 20) == 0 for address in made_up)

    def run(self, recorder, name, packed, signature, outputs, *arrays, **options):
        launch = device._device_launch(name, (77,), SHAPE, packed)
        recorder.sizes = [len(packed.bounds), *map(len, packed.arguments)]
        results = recorder.call(
            DevicePlan(name, signature.input_sizes, signature.output_sizes, [launch]), outputs, *arrays, **options
        )
        jax.block_until_ready(results)
        return results, recorder.launches

    def test_a_launch_gets_the_addresses_of_the_buffers(self, recorder):
        code = planned(kernels.scale, [self.X], values=[3.0]).forward_call().code
        packed = pack(generated(kernels.scale, "cpu", None), code.options, "cpu")
        (out,), launches = self.run(recorder, "scale", packed, code.signature, [((5,), "float32")], self.X)
        ((about, (bounds, x, factor, result)),) = launches
        assert about == (77, (3, 1, 1), (256, 1, 1), 40)
        assert bounds == packed.bounds
        assert factor == packed.arguments[1]
        assert np.frombuffer(x[:8], np.int64)[0] == self.X.unsafe_buffer_pointer()
        assert np.frombuffer(result[:8], np.int64)[0] == out.unsafe_buffer_pointer()
        assert x[8:] == packed.arguments[0][8:]
        assert result[8:] == packed.arguments[2][8:]

    def test_what_it_gets_is_what_warps_own_launch_passes(self):
        code = planned(kernels.scale, [self.X], values=[3.0]).forward_call().code
        packed = pack(generated(kernels.scale, "cpu", None), code.options, "cpu")
        x, out = (wp.array(np.zeros(5, np.float32), device="cpu") for _ in range(2))
        recorded = wp.launch(kernels.scale, dim=5, inputs=[x, 3.0, out], device="cpu", record_cmd=True)
        bounds, *arguments = map(bytes, recorded.params)
        assert packed.bounds == bounds
        for index, byte, buffer in packed.patches:
            address = (x if buffer == 0 else out).ptr.to_bytes(8, "little")
            assert arguments[index][byte : byte + 8] == address
        patched = {index for index, *_ in packed.patches}
        for index, (ours, theirs) in enumerate(zip(packed.arguments, arguments, strict=True)):
            assert ours[8:] == theirs[8:] if index in patched else ours == theirs

    def test_a_batch_launches_each_element_at_its_own_addresses(self, recorder):
        shapes = [jnp.zeros(1), jnp.zeros(4)]
        code = planned(kernels.logistic, shapes, launch_dims=(4,), output_dims=(4,)).forward_call().code
        packed = pack(generated(kernels.logistic, "cpu", None), code.options, "cpu")
        rates, xs = jnp.zeros((1, 1)), jnp.zeros((3, 4))
        options = {"batch": (3,)}
        (out,), launches = self.run(
            recorder, "logistic", packed, code.signature, [((4,), "float32")], rates, xs, **options
        )
        assert len(launches) == 3
        for element, (_, (_, *arguments)) in enumerate(launches):
            addresses = [np.frombuffer(argument[:8], np.int64)[0] for argument in arguments]
            starts = [array.unsafe_buffer_pointer() for array in (rates, xs, out)]
            assert addresses == [starts[0], starts[1] + 16 * element, starts[2] + 16 * element]

    def test_an_adjoint_gets_the_arrays_then_their_adjoints(self, recorder):
        with jax.enable_x64(True):
            mass, cell, density = jnp.ones(5), jnp.zeros(5, jnp.int32), jnp.ones(3)
            call = planned(kernels.deposit, [mass, cell, density], in_out=("density",))
            code = adjoint_code(call, [mass, cell, density])
            packed = pack(generated(kernels.deposit, "cpu", None), code.options, "cpu")
            assert len(packed.arguments) == 6
            # Inputs: the three arrays, the cotangent of density, and zeros for mass; results take the memory of these.
            outputs = [((3,), "float64"), ((5,), "float64")]
            given = mass, cell, density, jnp.full(3, 2.0), jnp.zeros(5)
            results, launches = self.run(
                recorder, "deposit", packed, code.signature, outputs, *given, aliases=((3, 0), (4, 1))
            )
            ((_, (_, *arguments)),) = launches
            data, gradients = (
                [int(np.frombuffer(argument[start : start + 8], np.int64)[0]) for argument in arguments]
                for start in (0, 8)
            )
            arrays = [array.unsafe_buffer_pointer() for array in given[:3]]
            adjoints = [results[1].unsafe_buffer_pointer(), 0, results[0].unsafe_buffer_pointer()]
            assert data == [*arrays, *adjoints]
            assert gradients == [*adjoints, 0, 0, 0]

    def test_the_memory_of_an_array_is_that_of_warps_descriptor(self, packed):
        fields = {name: getattr(packed.types[0], name) for name, *_ in packed.types[0]._fields_}
        assert (fields["data"].offset, fields["grad"].offset) == (0, 8)
        assert len(packed.arguments[0]) == ctypes.sizeof(packed.types[0])


class TestChecks:
    """What is found out when a kernel has been loaded on the devices."""

    @pytest.fixture
    def check(self, monkeypatch):
        monkeypatch.setattr(wp, "get_cuda_device", lambda ordinal: wp.get_device("cpu"))
        monkeypatch.setattr(driver, "limits", lambda function, ordinal: Limits())
        monkeypatch.setattr(driver, "static_shared_bytes", lambda function: 100)
        monkeypatch.setattr(driver, "parameter_sizes", lambda function: [32, 64])

        def run(dims=(1000,), block_dim=256, backward=False, sizes=(32, 64), **hooks):
            hooks = SimpleNamespace(**{"forward_smem_bytes": 0, "backward_smem_bytes": 0, **hooks})
            one = SimpleNamespace(
                hooks=hooks,
                block_dim=block_dim,
                entry=1,
                bounds=bytes(sizes[0]),
                arguments=[bytes(size) for size in sizes[1:]],
            )
            spec = SimpleNamespace(dims=dims, backward=backward)
            kernel = SimpleNamespace(key="k", grid_stride=True)
            return device._check_device(kernel, spec, {0: one, 1: one})

        return run

    def test_the_launch_has_the_block_and_the_shared_memory_that_warp_compiled(self, check):
        hooks = {"forward_smem_bytes": 1000, "backward_smem_bytes": 3000}
        assert check((100, 3), 128, **hooks) == LaunchShape((3, 1, 1), (128, 1, 1), 1000)
        assert check((100, 3), 128, backward=True, **hooks) == LaunchShape((3, 1, 1), (128, 1, 1), 3000)

    @pytest.mark.parametrize(
        ("launch", "error", "message"),
        [
            ({"block_dim": 2048}, LaunchError, "2048 threads, but this kernel can have at most 1024"),
            ({"forward_smem_bytes": 49_100}, LaunchError, "needs 49100 bytes of dynamic and 100 of static shared"),
            ({"cluster_dim": 3}, LaunchError, "k has 4 blocks, expected a multiple of its cluster_dim 3"),
            (
                {"det_launch_meta": SimpleNamespace(needs_deterministic=True)},
                LaunchError,
                "k is compiled in Warp's deterministic mode",
            ),
            (
                {"sizes": (32, 64, 64)},
                AbiError,
                r"takes parameters of \[32, 64\] bytes, but Warp .* packs \[32, 64, 64\]",
            ),
            ({"sizes": (48, 64)}, AbiError, r"packs \[48, 64\]"),
        ],
    )
    def test_a_launch_that_cannot_be(self, check, launch, error, message):
        with pytest.raises(error, match=message):
            check(**launch)

    def test_an_older_driver_cannot_tell_the_sizes_of_parameters(self, check, monkeypatch):
        monkeypatch.setattr(driver, "parameter_sizes", lambda function: [])
        assert check(sizes=(1, 2, 3)).grid == (4, 1, 1)
