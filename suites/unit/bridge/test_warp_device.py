"""Warp launches on CUDA, without a GPU: their shape, and what reaches cuLaunchKernel, recorded by a stand-in.

The launches are packed for Warp's CPU device: the same memory but for the machine code's address.
"""

from types import SimpleNamespace

import pytest

from bridge import LaunchError
from bridge.cuda.launch_shape import LaunchShape
from bridge.languages.warp import cuda_plan as device
from bridge.languages.warp.generated import PackedLaunch, generated
from bridge.languages.warp.operations import Layout
from suites.kernels.warp.blocks import wp
from suites.unit.bridge import warp_kernels as kernels

LOOPING, LEAN = SimpleNamespace(grid_stride=True), SimpleNamespace(grid_stride=False)


@pytest.mark.parametrize(
    ("kernel", "dims", "block_dim", "grid"),
    [
        (LOOPING, (257,), 256, (2, 1, 1)),
        (LOOPING, (2**20, 2**20), 256, (2**31 - 1, 1, 1)),
        (LEAN, (2**24 + 1,), 256, (65536, 2, 1)),
        (LEAN, (2**24 * 65535 + 1,), 256, (65536, 65535, 2)),
    ],
)
def test_blocks_are_counted_as_warp_does(kernel, dims, block_dim, grid):
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


def test_a_launch_in_the_deterministic_mode_is_refused():
    code = SimpleNamespace(kernel=SimpleNamespace(key="k", grid_stride=True), threads=128)
    hooks = SimpleNamespace(det_launch_meta=SimpleNamespace(needs_deterministic=True))
    one = PackedLaunch(None, hooks, 1, b"", Layout((), (), ()), ())
    with pytest.raises(LaunchError, match="Warp's deterministic mode"):
        device.device_launch(code, (100, 3), False, {0: one, 1: one})
