"""Warp launches on CUDA, without a GPU: their shape, and what reaches cuLaunchKernel, recorded by a stand-in.

The launches are packed for Warp's CPU device: the same memory but for the machine code's address.
"""

import contextlib
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bridge import LaunchError
from bridge.ffi.cuda import driver
from bridge.ffi.cuda.devices import Limits
from bridge.languages.launch_shape import LaunchShape
from bridge.languages.warp import cuda_plan as device
from bridge.languages.warp.generated import generated
from bridge.languages.warp.packing import Layout, PackedLaunch, pack
from bridge.languages.warp.parameters import parameters_of
from bridge.languages.warp.planned import plan_call
from bridge.languages.warp.wrapper_options import StaticValue, WrapperOptions
from suites.kernels.warp.blocks import wp
from suites.unit.bridge import warp_kernels as kernels
from suites.unit.bridge.cubins import sizes_in

MOST_BLOCKS = 2**31 - 1


class TestLaunchShape:
    LOOPING, LEAN = SimpleNamespace(grid_stride=True), SimpleNamespace(grid_stride=False)

    @pytest.mark.parametrize(
        ("kernel", "dims", "block_dim", "grid"),
        [
            (LOOPING, (257,), 256, (2, 1, 1)),
            (LOOPING, (2**20, 2**20), 256, (MOST_BLOCKS, 1, 1)),
            (LEAN, (2**24 + 1,), 256, (65536, 2, 1)),
            (LEAN, (2**24 * 65535 + 1,), 256, (65536, 65535, 2)),
        ],
    )
    def test_blocks_are_counted_as_warp_does(self, kernel, dims, block_dim, grid):
        assert device.launch_shape(kernel, dims, block_dim, 12) == LaunchShape(grid, (block_dim, 1, 1), 12)


def negated(x: kernels.VECTOR, out: kernels.VECTOR):
    i = wp.tid()
    out[i] = -x[i]


@pytest.mark.skipif(not hasattr(wp.config, "default_grid_stride"), reason="in this Warp every kernel loops")
class TestLoopOverTheGrid:
    """Warp's own launcher may start fewer blocks than a kernel needs. The bridge never does."""

    @pytest.mark.parametrize(
        ("options", "of_module", "found"),
        [({}, {}, False), ({"grid_stride": False, "enable_backward": True}, {}, False),
         ({"grid_stride": True}, {}, True), ({}, {"default_grid_stride": True}, True)],
    )  # fmt: skip
    def test_a_kernel_has_one_only_if_it_asks_for_it(self, options, of_module, found):
        assert self.loops(options, of_module) == (found, found)

    def loops(self, options, of_module):
        """Whether the code has the loop, and whether the launch counts on it."""
        module = wp.Module("loops", None)
        module.options |= of_module
        made = generated(wp.Kernel(negated, key="negated", module=module, options=options), "cuda", 128)
        return "_idx += " in made.source, made.kernel.grid_stride


@pytest.mark.parametrize("aligned", [False, True])
def test_only_tiles_that_promise_it_need_aligned_arrays(aligned):
    @wp.kernel(module="unique", enable_backward=False)
    def tiled(x: kernels.MATRIX, out: kernels.MATRIX):
        tile = wp.tile_load(x, shape=(16, 16), storage="shared", aligned=wp.static(aligned))
        wp.tile_store(out, 2.0 * tile)

    assert device.alignments_of([generated(tiled, "cuda", 64).source], 2) == [16, 16] * aligned


def planned(kernel, arrays, num_outputs=1, in_out=(), launch_dims=None, output_dims=None, values=()):
    parameters = parameters_of(kernel, num_outputs, in_out)
    options = WrapperOptions(kernel, parameters, launch_dims, output_dims, None, None, False)
    given = [p for p in parameters if not p.is_array]
    statics = [StaticValue.of(value, kernel, parameter) for value, parameter in zip(values, given, strict=True)]
    return plan_call(options, statics, [jax.typeof(array) for array in arrays])


class TestLaunch:
    X = jnp.arange(1.0, 6.0)

    def test_what_it_gets_is_what_warps_own_launch_passes(self):
        made = planned(kernels.scale, [self.X], values=[3.0]).forward_call()
        packed = pack(generated(kernels.scale, "cpu", None), made.options, "cpu", "cpu")
        x, out = (wp.array(np.zeros(5, np.float32), device="cpu") for _ in range(2))
        recorded = wp.launch(kernels.scale, dim=5, inputs=[x, 3.0, out], device="cpu", record_cmd=True)
        bounds, *arguments = map(bytes, recorded.params)
        content = np.array(packed.content).tobytes()
        assert content.startswith(bounds)
        for word, buffer in packed.patches:
            address = (x if buffer == 0 else out).ptr.to_bytes(8, "little")
            content = content[: 8 * word] + address + content[8 * word + 8 :]
        for offset, argument in zip(packed.layout.offsets[1:], arguments, strict=True):
            assert content[offset : offset + len(argument)] == argument

    def test_machine_code_takes_arguments_of_these_sizes(self, tmp_path):
        @wp.kernel(module="unique")
        def mixed(x: kernels.VECTOR, by: wp.float16, shift: wp.vec3, flag: bool, out: kernels.MATRIX):
            out[wp.tid(), 0] = x[0] * float(by) + shift[0] + float(flag)

        wp.compile_aot_module(mixed.module, arch=90, module_dir=tmp_path, use_ptx=False)
        (cubin,) = (path.read_bytes() for path in tmp_path.glob("*.cubin"))
        given = {"launch_dims": (5,), "output_dims": (("out", (5, 1)),), "values": [2.0, wp.vec3(1.0), True]}
        options = planned(mixed, [self.X], **given).forward_call().options
        sizes = pack(generated(mixed, "cpu", None), options, "cpu", "cpu").layout.sizes
        for kind, expected in (("forward", sizes), ("backward", (*sizes, *sizes[1:]))):
            assert sizes_in(cubin, f"{mixed.get_mangled_name()}_cuda_kernel_{kind}") == expected


class TestChecks:
    """What is found out when a kernel has been loaded on the devices."""

    @pytest.fixture
    def check(self, monkeypatch):
        monkeypatch.setattr(driver, "current", lambda ordinal: contextlib.nullcontext())
        monkeypatch.setattr(driver, "allow_shared_bytes", lambda function, size: None)
        monkeypatch.setattr(driver, "limits", lambda function, ordinal: Limits())
        monkeypatch.setattr(driver, "static_shared_bytes", lambda function: 100)

        def run(dims=(1000,), block_dim=256, backward=False, **hooks):
            hooks = SimpleNamespace(**{"forward_smem_bytes": 0, "backward_smem_bytes": 0, **hooks})
            one = PackedLaunch(None, hooks, block_dim, 1, (), Layout((), (), ()), ())
            launch = SimpleNamespace(dims=dims, backward=backward)
            kernel = SimpleNamespace(key="k", grid_stride=True)
            made = device.device_launch(kernel, launch, {0: one, 1: one})
            return LaunchShape(made.grid, made.block, made.shared_bytes)

        return run

    def test_the_launch_has_the_block_and_the_shared_memory_that_warp_compiled(self, check):
        hooks = {"forward_smem_bytes": 1000, "backward_smem_bytes": 3000}
        assert check((100, 3), 128, **hooks) == LaunchShape((3, 1, 1), (128, 1, 1), 1000)
        assert check((100, 3), 128, backward=True, **hooks) == LaunchShape((3, 1, 1), (128, 1, 1), 3000)

    @pytest.mark.parametrize(
        ("launch", "error", "message"),
        [({"block_dim": 2048}, LaunchError, "2048 threads, but this kernel can have at most 1024"),
         ({"forward_smem_bytes": 49_100}, LaunchError, "needs 49100 bytes of dynamic and 100 of static shared"),
         ({"det_launch_meta": SimpleNamespace(needs_deterministic=True)}, LaunchError, "Warp's deterministic mode")],
    )  # fmt: skip
    def test_a_launch_that_cannot_be(self, check, launch, error, message):
        with pytest.raises(error, match=message):
            check(**launch)
