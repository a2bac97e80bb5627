"""What only a GPU can show: CuPy works on XLA's stream and memory, is right, and is timed as a kernel."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from reports import Status
from suites import ops
from suites.backends import BACKENDS
from suites.cells.case import Case
from suites.cells.grid import missing_device
from suites.numerics.precision import precision
from suites.peers import cupy as cupy_library
from suites.timing.timed_cell import judge_library, library_programs

MISSING = missing_device("cuda")
pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))

PEERS = [
    Case(operator, backend, dtype, size, "cuda")
    for operator in ops.operators().values()
    for backend in operator.peers
    for dtype in operator.dtypes
    for size in ((4096, 100_003) if dtype == operator.dtypes[0] else (4096,))
    if operator.unsupported(backend, "cuda", dtype) is None
]


@pytest.fixture(scope="module")
def device():
    return jax.devices("cuda")[0]


@pytest.fixture(scope="module")
def cupy():
    return pytest.importorskip("cupy", reason="CuPy is not installed")


@pytest.mark.parametrize("case", PEERS, ids=lambda case: case.id)
def test_the_peers_of_the_built_in_operators_compute_what_these_compute(case):
    with precision(case.dtype), jax.default_device(case.device):
        verdict = judge_library(case, case.inputs())
    assert verdict.status is Status.PASSED, verdict.reason


def test_cupy_shares_the_memory_and_the_stream_of_xla(cupy, device):
    x = jax.device_put(jnp.arange(5.0), device)
    borrowed = cupy_library._borrowed(x)
    assert borrowed.data.ptr == x.unsafe_buffer_pointer()
    assert borrowed.get().tolist() == [0, 1, 2, 3, 4]
    assert cupy_library.xla_stream().ptr != 0
    assert cupy_library._stream_of_a_program() == cupy_library.xla_stream().ptr


def test_work_of_cupy_waits_for_the_work_of_xla(cupy, device):
    slow = jax.jit(lambda x: jax.lax.fori_loop(0, 200, lambda _, x: jnp.sin(x) + 1, x))
    x = jax.device_put(jnp.ones(1 << 22, jnp.float32), device)
    expected = np.asarray(slow(x)).sum(dtype=np.float64)
    case = Case(ops.operators()["sum"], BACKENDS["cupy"], "float32", 1 << 22, "cuda")
    program = library_programs(case, case.inputs()).single
    for _ in range(3):
        (result,) = program(slow(x))  # queued, and not waited for
        assert float(np.asarray(result)[0]) == pytest.approx(expected, rel=1e-4)
