"""Faults on a GPU: memory that does not fit is recorded as OOM, others complete, and writes past an end are noticed."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bridge
from reports import Status, load_run
from suites.cells.grid import missing_device
from suites.checks.judging.memory import MULTIPLE, WrittenBeyond, _behind, filled_gpu_memory
from suites.unit.processes import run

MISSING = missing_device("cuda")
pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
PLATFORM = "cuda"

TOO_MANY = 1 << 40
"""Bytes that no GPU has."""

KERNELS = f"""\
import numpy as np
from numba import cuda
from suites import Operator

@cuda.jit
def double(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = 2 * x[i]

def exhausts(x, out, stream):
    work = cuda.device_array({TOO_MANY}, np.uint8)
    double[-(-out.size // 256), 256, stream](x, out)

def twice(x):
    return 2 * x

EXHAUSTS = Operator(
    name="exhausts", reference=twice, dtypes=("float32",),
    kernels={{"numba_cuda_callable": exhausts, "numba_cuda_replay": exhausts}},
)
RIGHT = Operator(name="right", reference=twice, dtypes=("float32",), kernels={{"numba_cuda": double}})
"""


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """The records of a session with two worker processes."""
    folder = tmp_path_factory.mktemp("faults")
    Path(folder, "my_ops.py").write_text(KERNELS)
    done = run(
        "-P", "-m", "suites", "validate", folder / "my_ops.py", "--device", "cuda", "--jobs", "2",
        "--timeout", "100", "--runs", folder, "--", "-k", "test_eager_call or test_compiled_program",
        JAX_PLATFORMS="cuda,cpu",
    )  # fmt: skip
    (file,) = folder.glob("*.jsonl")
    run_ = load_run(file)
    assert run_.end is not None, done.stdout + done.stderr
    return run_.records


def test_kernels_whose_temporaries_do_not_fit_are_recorded_as_such(records):
    exhausted = [record for record in records if record.cell.backend in ("numba_cuda_callable", "numba_cuda_replay")]
    assert {record.cell.backend for record in exhausted} == {"numba_cuda_callable", "numba_cuda_replay"}
    assert {record.status for record in exhausted} == {Status.OOM}, {record.reason for record in exhausted}
    # A callable allocates by itself; XLA allocates the temporaries of a recording.
    says = {"numba_cuda_callable": f"allocating {TOO_MANY} bytes", "numba_cuda_replay": "RESOURCE_EXHAUSTED"}
    assert all(says[record.cell.backend] in str(record.reason) for record in exhausted)


def test_the_other_cells_complete(records):
    others = [record for record in records if record.cell.backend == "numba_cuda"]
    assert others
    assert {record.status for record in others} == {Status.PASSED}, {record.reason for record in others}


@pytest.fixture
def double():
    cuda = pytest.importorskip("numba.cuda", reason="numba-cuda is not installed")

    @cuda.jit
    def double(x, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = 2 * x[i]

    return double


def assert_the_next_call_works(double):
    x = jnp.arange(1000.0)
    result = bridge.numba_cuda_kernel(double, jax.ShapeDtypeStruct(x.shape, x.dtype), launch_dims=x.size)(x)
    np.testing.assert_array_equal(result, 2 * np.arange(1000.0, dtype=np.float32))


def test_a_result_that_does_not_fit_is_an_error_of_jax(double):
    result = jax.ShapeDtypeStruct((TOO_MANY // 4,), jnp.float32)
    with pytest.raises(jax.errors.JaxRuntimeError, match="RESOURCE_EXHAUSTED"):
        jax.block_until_ready(bridge.numba_cuda_kernel(double, result, grid=1, block=32)(jnp.ones(TOO_MANY // 2**30)))
    assert_the_next_call_works(double)


def test_local_memory_that_does_not_fit_says_so(double):
    """CUDA takes local memory for all threads that could run at once: 0.5 MB each are 126 GiB on an H200."""
    from numba import cuda, float32

    @cuda.jit
    def spills(x, out):
        local = cuda.local.array(125_000, float32)
        i = cuda.grid(1)
        for k in range(125_000):
            local[k] = x[(i + k) % x.size]
        total = float32(0)
        for k in range(x.size):
            total += local[int(x[k]) % 125_000]
        out[i] = total

    (device, *_) = jax.devices("cuda")
    held = jnp.zeros(int(0.25 * device.memory_stats()["bytes_limit"]), jnp.uint8, device=device)
    call = bridge.numba_cuda_kernel(spills, jax.ShapeDtypeStruct((32,), jnp.float32), grid=1, block=32)
    with pytest.raises((jax.errors.JaxRuntimeError, MemoryError), match="CUDA_ERROR_OUT_OF_MEMORY"):
        jax.block_until_ready(call(jnp.ones(32)))
    held.delete()
    assert_the_next_call_works(double)


def test_bytes_behind_an_array_are_watched_on_a_gpu():
    device = jax.devices("cuda")[0]
    arrays = {name: jnp.ones(size, device=device) for name, size in (("x", 33), ("full", MULTIPLE), ("empty", 0))}
    jax.block_until_ready(arrays)
    program = jax.jit(lambda x: x).lower(arrays["x"]).compile()
    with filled_gpu_memory(program, arrays, 0x5A, device):
        pass
    watched = filled_gpu_memory(program, arrays, 0x5A, device)
    watched.__enter__()
    _behind(arrays["x"])[4:5].copy_to_device(np.zeros(1, np.uint8))
    with pytest.raises(WrittenBeyond, match=r"after the end of x: 1 of the 124 bytes .* the first 4 bytes"):
        watched.__exit__(None, None, None)
