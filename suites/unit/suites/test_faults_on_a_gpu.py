"""Faults on a GPU: memory that does not fit is recorded as OOM, others complete, and writes past an end are noticed."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

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


def test_kernels_whose_temporaries_do_not_fit_are_recorded_as_such_and_others_complete(records):
    exhausted = [record for record in records if record.cell.backend in ("numba_cuda_callable", "numba_cuda_replay")]
    assert {record.cell.backend for record in exhausted} == {"numba_cuda_callable", "numba_cuda_replay"}
    assert {record.status for record in exhausted} == {Status.OOM}, {record.reason for record in exhausted}
    # A callable allocates by itself; XLA allocates the temporaries of a recording.
    says = {"numba_cuda_callable": f"allocating {TOO_MANY} bytes", "numba_cuda_replay": "RESOURCE_EXHAUSTED"}
    assert all(says[record.cell.backend] in str(record.reason) for record in exhausted)
    others = [record for record in records if record.cell.backend == "numba_cuda"]
    assert others
    assert {record.status for record in others} == {Status.PASSED}, {record.reason for record in others}


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
