"""Kernels for tensor cores whose rows have choices: each choice is right on the CPU, or lowers for a GPU."""

import importlib
import os
import subprocess

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from suites.backends import BACKENDS
from suites.ops import operators
from suites.ops.matmul import cutile, triton, warp_tiles
from suites.ops.matmul.fitting import fitting
from suites.unit.processes import output


def arrays(dtype, *shapes):
    random = np.random.default_rng(3)
    return [jnp.asarray(random.normal(size=shape), dtype) for shape in shapes]


def test_warp_multiplies_in_large_tiles_with_a_rest_at_each_side():
    A, B = arrays("bfloat16", (130, 257), (257, 300))
    (wanted,) = operators()["matmul"].reference(A, B)
    (got,) = warp_tiles.matmul_in_tiles((A, B), [wanted], **warp_tiles.LARGE)(A, B)
    np.testing.assert_allclose(got.astype(np.float32), wanted.astype(np.float32), rtol=0.01, atol=0.01)


@pytest.mark.parametrize(
    ("shape", "chosen"),
    [((2048, 2048), 0), ((4096, 512), 1), ((1536, 1536), 1), ((1024, 1024), 2), ((1023, 65), 3), ((0, 3), 3)],
)
@pytest.mark.parametrize("module", [cutile, triton])
def test_a_product_gets_the_largest_tile_of_which_each_multiprocessor_has_one(module, shape, chosen):
    """Tiles of 16 bits: 128 of them are enough for the 132 multiprocessors of an H200."""
    assert fitting(module.HALF, *shape) is module.HALF[chosen]


@pytest.mark.skipif(jax.__version_info__ < (0, 10), reason="jax 0.9 asks the GPU for its size, and imports absl")
def test_kernels_that_jax_ships_lower_on_parts_of_blocks_in_batches_and_in_large_tiles():
    # In a process of its own: an import of JAX's kernels that fails, as without absl, cannot be repeated.
    assert output("-m", "suites.unit.suites.lower_shipped").splitlines()[-1] == "7 programs"


@pytest.fixture
def cute_dsl(monkeypatch):
    """The modules of kernels in CuTe DSL, by operator. They compile for a Hopper GPU, whatever is here."""
    if why := BACKENDS["cute_dsl"].missing():
        pytest.skip(why)
    compiler = importlib.import_module("cutlass.cutlass_dsl").CuTeDSL._get_dsl()
    monkeypatch.setattr(compiler.envar, "arch", "sm_90a")
    return {name: importlib.import_module(f"suites.ops.{name}.cute_dsl") for name in ("matmul", "attention")}


@pytest.mark.parametrize(
    ("operator", "dtype", "constants", "instruction"),
    [
        ("matmul", "bfloat16", (256, 4), "multicast::cluster"),
        ("matmul", "bfloat16", (64, 8), "multicast::cluster"),
        ("matmul", "float16", (256, 4), "multicast::cluster"),
        ("attention", "bfloat16", (128, 0.1), "wgmma.wait_group.sync.aligned \t1;"),  # one product still runs
        ("attention", "float16", (16, 0.1), "wgmma.wait_group.sync.aligned \t1;"),
    ],
)
def test_products_of_cute_dsl_overlap_and_their_numbers_stay_in_registers(
    cute_dsl, operator, dtype, constants, instruction, tmp_path
):
    knobs = pytest.importorskip("triton.knobs")
    cute_dsl[operator].compiled(jnp.dtype(dtype), *constants, options=f"--keep-ptx --dump-dir {tmp_path}")
    (code,) = tmp_path.glob("*.ptx")
    text = code.read_text()
    assert "wgmma.mma_async" in text
    assert instruction in text
    command = [knobs.nvidia.ptxas.path, "-arch=sm_90a", "-v", code, "-o", os.devnull]
    assembled = subprocess.run(command, capture_output=True, text=True)
    if "Unsupported .version" in assembled.stderr:
        pytest.skip("the assembler of this Triton is older than CuTe DSL")
    assert assembled.returncode == 0, assembled.stderr
    assert "0 bytes spill stores" in assembled.stderr
    assert "are serialized" not in assembled.stderr  # as where a product is read before a wait for it


def test_heads_that_the_kernel_of_cute_dsl_has_no_room_for_are_refused(cute_dsl):
    (heads,) = arrays("bfloat16", (4, 1, 129))
    with pytest.raises(ValueError, match="heads of at most 128 features, not 129"):
        cute_dsl["attention"].attention_cute([heads] * 3, [heads])


@pytest.mark.parametrize(
    ("operator", "shapes"),
    [
        ("matmul", ((33, 67), (67, 65))),
        ("matmul", ((3, 0), (0, 5))),
        ("matmul", ((2048, 64), (64, 2048))),
        ("attention", ((130, 4, 60), (130, 2, 60), (130, 2, 60))),
    ],
)
@pytest.mark.usefixtures("cute_dsl")
def test_a_batch_of_a_kernel_of_cute_dsl_is_one_call(operator, shapes):
    own = operators()[operator]
    (out,) = own.outputs(*arrays("bfloat16", *shapes))
    call = jax.vmap(own.build(BACKENDS["cute_dsl"], arrays("bfloat16", *shapes)))
    inputs = arrays("bfloat16", *((3, *shape) for shape in shapes))
    lowered = jax.jit(call).trace(*inputs).lower(lowering_platforms=("cuda",))
    assert lowered.as_text().count("@bridge_cuda_host") == 1
    (result,) = jax.tree.leaves(lowered.out_info)
    assert result.shape == (3, *out.shape)
