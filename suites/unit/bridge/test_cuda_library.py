"""cuda_library: what it keeps and compiles again, with a stand-in for nvcc; and nvcc itself where there is one."""

import shutil
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bridge import STREAM, CudaUnavailableError, KernelCompileError, SignatureError, cuda_library, native_kernel
from bridge.cuda import cuda_library as module
from suites.unit.bridge.test_cuda_raw import PLATFORM, gpu

STAND_IN = """#!{python}
import subprocess, sys
if "--version" in sys.argv:
    sys.exit(print("nvcc, version 1"))
open({log!r}, "a").write("x")
words = [word for word in sys.argv[1:] if word != "-Xcompiler" and not word.startswith("-gencode")]
sys.exit(subprocess.run(["cc", "-x", "c", *words]).returncode)
"""

SAXPY = """
#include "block.cuh"
template <typename T> __global__ void saxpy_kernel(long n, T a, const T *x, const T *y, T *out) {
    long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
    if (i < n) out[i] = TIMES * (a * x[i] + y[i]);
}
extern "C" int saxpy(cudaStream_t stream, const float *x, const float *y, long n, float a, float *out) {
    if (n) saxpy_kernel<float><<<(n + BLOCK - 1) / BLOCK, BLOCK, 0, stream>>>(n, a, x, y, out);
    return cudaGetLastError();
}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("KERNEL_BRIDGE_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "parts").mkdir()
    return tmp_path


@pytest.fixture
def compilations(folder, monkeypatch):
    """A function that says how often the stand-in for nvcc has compiled."""
    if not shutil.which("cc"):
        pytest.skip("this machine has no C compiler")
    log, compiler = folder / "log", folder / "nvcc"
    compiler.write_text(STAND_IN.format(python=sys.executable, log=str(log)))
    compiler.chmod(0o755)
    monkeypatch.setenv("NVCC", str(compiler))
    return lambda: len(log.read_text()) if log.exists() else 0


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_a_library_is_compiled_again_only_where_what_it_is_made_of_has_changed(folder, compilations):
    file = written(folder / "f.cu", '#include "parts.cuh"\nint f(void) { return PART + TILE; }')
    header = written(folder / "parts" / "parts.cuh", "#define PART 1")

    def f(tile):
        return cuda_library(file, options=[f"-DTILE={tile}"], headers=[folder / "parts"]).f()

    assert (f(10), f(10), compilations()) == (11, 11, 1)
    assert (f(20), compilations()) == (21, 2)
    header.write_text("#define PART 2")
    assert (f(10), compilations()) == (12, 3)
    shutil.copytree(folder / "parts", folder / "elsewhere")
    assert cuda_library(file, options=["-DTILE=10"], headers=[folder / "elsewhere"]).f() == 12
    assert compilations() == 3


def test_a_damaged_library_or_one_that_others_can_write_to_does_not_count(folder, compilations, monkeypatch):
    file = written(folder / "f.cu", "int f(void) { return 1; }")
    right = Path(cuda_library(file)._name)
    for at, (content, mode) in enumerate([(b"no library", 0o700), (right.read_bytes(), 0o777)]):
        monkeypatch.setenv("KERNEL_BRIDGE_CACHE_DIR", str(folder / str(at)))
        kept = folder / str(at) / right.parent.name / right.name
        kept.parent.mkdir(parents=True)
        kept.write_bytes(content)
        kept.chmod(mode)
        assert (cuda_library(file).f(), compilations()) == (1, at + 2)


def test_what_only_the_compiler_can_find_is_compiled_in_each_process(folder, compilations):
    file = written(folder / "f.cu", '#define FILE "parts/a.cuh"\n#include FILE\nint f(void) { return A; }')
    for value in (1, 2):
        written(folder / "parts" / "a.cuh", f"#define A {value}")
        assert (cuda_library(file).f(), compilations()) == (value, value)


@pytest.mark.parametrize(
    ("file", "options", "words"),
    [
        ("missing.cu", {}, "missing.cu.*does not exist"),
        ("f.cu", {"options": ["-I/usr/include"]}, "-I/usr/include.*headers="),
        ("f.cu", {"options": "-O3"}, "expected a list of strings"),
    ],
)
def test_an_error_says_what_to_pass(folder, compilations, file, options, words):
    written(folder / "f.cu", "int f(void) { return 1; }")
    with pytest.raises(SignatureError, match=words):
        cuda_library(folder / file, **options)


def test_a_refused_file_is_an_error_of_one_line_with_the_compilers_own_words(folder, compilations):
    file = written(folder / "f.cu", "int f(void) { return nothing; }")
    with pytest.raises(KernelCompileError, match=r"f.cu:1.*nothing.*undeclared") as error:
        cuda_library(file)
    assert "\n" not in str(error.value)
    assert not [path for path in (folder / "cache").rglob("*") if path.is_file()]


def test_without_nvcc_the_error_says_how_to_get_it(folder, monkeypatch):
    monkeypatch.setattr(module.shutil, "which", lambda name: None)
    with pytest.raises(CudaUnavailableError, match="pip install nvidia-cuda-nvcc"):
        cuda_library(written(folder / "f.cu", ""))


def has_nvcc() -> bool:
    try:
        return bool(module._nvcc())
    except CudaUnavailableError:
        return False


@pytest.fixture
def saxpy(folder):
    if not has_nvcc():
        pytest.skip("this machine has no nvcc")
    written(folder / "parts" / "block.cuh", "#define BLOCK 128")
    library = cuda_library(written(folder / "saxpy.cu", SAXPY), options=["-DTIMES=2"], headers=[folder / "parts"])
    return native_kernel(
        library.saxpy,
        lambda x, y: x,
        lambda x, y, out: (STREAM, x, y, x.size, np.float32(3), out),
        status=True,
        platform="cuda",
        capturable=True,
    )


def test_nvcc_compiles_templates_and_host_code_and_the_function_can_be_lowered(saxpy):
    x = jax.ShapeDtypeStruct((1000,), jnp.float32)
    assert "saxpy" in jax.jit(saxpy).trace(x, x).lower(lowering_platforms=("cuda",)).as_text()


@gpu
def test_a_library_runs_on_xlas_stream_alone_in_a_program_and_in_a_batch(saxpy):
    x = jax.device_put(np.arange(3000, dtype=np.float32).reshape(3, 1000), jax.devices(PLATFORM)[0])
    np.testing.assert_array_equal(saxpy(x, x), 8 * x)
    np.testing.assert_array_equal(jax.jit(lambda x: saxpy(x + 1, x) - 1)(x), 8 * x + 5)
    np.testing.assert_array_equal(jax.vmap(saxpy)(x, x), 8 * x)
