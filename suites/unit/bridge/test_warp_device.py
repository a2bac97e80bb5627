"""Warp launches on CUDA, without a GPU: their shape, and what reaches cuLaunchKernel, recorded by a stand-in.

The launches are packed for Warp's CPU device: the same memory but for the machine code's address.
"""

import contextlib
from types import SimpleNamespace

import pytest

from bridge import LaunchError
from bridge.cuda.launch_shape import LaunchShape
from bridge.ffi.cuda import driver
from bridge.ffi.cuda.devices import Limits
from bridge.languages.warp import cuda_plan as device
from bridge.languages.warp.generated import generated
from bridge.languages.warp.packing import Layout, PackedLaunch
from suites.kernels.warp.blocks import wp
from suites.unit.bridge import warp_kernels as kernels

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
