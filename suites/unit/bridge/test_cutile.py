"""cutile_kernel: what shows without a GPU, and on a GPU the rest."""

import importlib.util
import inspect
import sys

import jax
import numpy as np
import pytest

import bridge
from bridge import KernelCompileError, SignatureError, UnavailableError
from suites.backends.cutile import MISSING, ct, kernel
from suites.unit.bridge import copies_in_blocks
from suites.unit.bridge.cubins import cubin_in, sizes_in
from suites.unit.bridge.entries import call_in
from suites.unit.bridge.test_cuda_raw import HAS_GPU, gpu

pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))

PLATFORM = "cuda" if HAS_GPU else "cpu"
N = 1000
X = np.arange(N, dtype=np.float32)
OUT = jax.ShapeDtypeStruct((N,), np.float32)


@kernel
def scale(x, out, numbers, wide: "ct.ScalarInt64", SHAPE: "ct.Constant[tuple[int, int]]" = (16, 32)):
    i, j = ct.bid(0), ct.bid(1)
    ct.store(out, (i, j), ct.load(x, (i, j), SHAPE) * numbers[0] + numbers[1] + wide)


def shifted(made=copies_in_blocks.tile_copy, **changes):
    return bridge.cutile_kernel(
        made, OUT, **{"grid": lambda v: -(-N // v["SIZE"]), "shift": 2.0, "SIZE": 256} | changes
    )


def scaled(shape=(30, 50), wide=2**40):
    spec = jax.ShapeDtypeStruct(shape, np.float32)
    return bridge.cutile_kernel(scale, spec, grid=(2, 2), numbers=(2.0, np.int8(3)), wide=wide), spec


def content(made, spec=OUT):
    call = call_in(made, spec)
    return call.definition.content(call.signature)


@pytest.mark.parametrize("capability", [80, 90, 100])
def test_a_kernel_compiles_for_three_generations_without_a_gpu(capability):
    code = cubin_in(call_in(*scaled()), capability)
    launch = code.launch
    assert launch.blob == (0, 30, 50, 50, 1, 0, 30, 50, 50, 1, int(np.float32(2).view(np.int32)), 3, 2**40)
    assert launch.parameters == tuple(range(0, 8 * len(launch.blob), 8))
    assert sizes_in(code.content, "scale") == launch.sizes
    assert [(patch.word, patch.buffer) for patch in launch.patches] == [(0, 0), (5, 1)]
    assert (launch.grid, launch.block, launch.shared_bytes) == ((2, 2, 1), (1, 1, 1), 0)


def test_the_compiler_is_told_no_more_of_extents_than_by_cutile_itself():
    """Given all of them, cuda-tile 1.7 loads an array that is narrower than its tile in the wrong order."""
    assert content(*scaled((32, 48))) == content(*scaled((48, 32)))
    assert len({content(*scaled(shape)) for shape in ((32, 48), (32, 50), (1, 48), (48, 1))}) == 4


def test_calls_of_equal_code_have_one_key_wherever_the_kernel_stands(tmp_path):
    (path := tmp_path / "moved.py").write_text("# moved\n" + inspect.getsource(copies_in_blocks))
    spec = importlib.util.spec_from_file_location("moved", path)
    spec.loader.exec_module(moved := importlib.util.module_from_spec(spec))
    hinted = shifted(copies_in_blocks.tile_copy.replace_hints(occupancy=2))
    others = [shifted(shift=3.0), shifted(shift=2), shifted(SIZE=128), shifted(grid=5), hinted]
    keys = [call_in(made, OUT).describe("cuda")[1] for made in (shifted(), shifted(moved.tile_copy), *others)]
    assert keys[0] == keys[1]
    assert len(set(keys)) == 6
    assert shifted() is shifted()


def test_arrays_overlap_and_are_large_where_the_call_says_so():
    assert content(shifted(input_output_aliases={0: 0})) != content(shifted())
    assert content(shifted()).count("div_by<16>") == 2
    assert "div_by" not in content(*scaled((5, 5)))  # 100 bytes: elements of a batch lie at other addresses
    assert "i64>, %arg3" in content(*scaled((3, 2**31 + 5)))


def test_what_cutile_refuses_names_the_kernel(monkeypatch):
    with pytest.raises(KernelCompileError, match=r"cuTile cannot compile tile_copy:(.|\n)*power of"):
        jax.eval_shape(shifted(SIZE=250), OUT)
    with pytest.raises(SignatureError, match=r"wide is .* that fits int64"):
        scaled(wide=2**63)
    with pytest.raises(KernelCompileError, match="cuTile has no complex64 arrays"):
        jax.eval_shape(shifted(), X.astype(np.complex64))
    monkeypatch.setitem(sys.modules, "cuda.tile.compilation", None)
    with pytest.raises(UnavailableError, match=r'cuTile, which does not work .* pip install "cuda-tile\[tileiras\]'):
        shifted()


@gpu
@pytest.mark.parametrize("shape", [(30, 50), (5, 5), (32, 64)])
def test_on_a_gpu_numbers_and_tuples(shape):
    x = np.random.default_rng(0).integers(-9, 9, shape).astype(np.float32)
    np.testing.assert_array_equal(scaled(shape, wide=4)[0](x), 2 * x + 7)
