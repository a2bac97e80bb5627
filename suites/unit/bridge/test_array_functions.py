"""A first kernel does not load SciPy's linear algebra, and a kernel that needs it does."""

from suites.unit import processes

FIRST = """
import sys, jax, numba, numpy as np, bridge

@numba.njit
def double(x, out):
    for i in range(x.size):
        out[i] = 2 * x[i]

@numba.njit
def product(x, out):
    out[:] = np.dot(x, x)

@numba.njit
def correlation(x, out):
    out[:] = np.corrcoef(x)

def run(kernel):
    x = np.array([[1, 2], [3, 5]], np.float32) if kernel is not double else np.arange(3, dtype=np.float32)
    return np.asarray(bridge.numba_kernel(kernel, jax.ShapeDtypeStruct(x.shape, x.dtype))(x)).tolist()
"""


def test_a_first_kernel_loads_no_linear_algebra():
    found = processes.output("-c", FIRST + "print(run(double), 'scipy.linalg' in sys.modules)")
    assert found.strip() == "[0.0, 2.0, 4.0] False"


def test_kernels_that_need_linear_algebra_have_it():
    found = processes.output("-c", FIRST + "run(double); print(run(product)); print(run(correlation))")
    assert found.split("\n")[:2] == ["[[7.0, 12.0], [18.0, 31.0]]", "[[1.0, 1.0], [1.0, 1.0]]"]


def test_numba_s_own_check_is_in_place_again():
    program = FIRST + "run(double); from numba.np import arraymath, linalg; "
    found = processes.output(
        "-c", program + "print(arraymath.ensure_blas.__module__, linalg.ensure_blas.__module__, arraymath._HAVE_BLAS)"
    )
    assert found.split() == ["numba.np.linalg", "numba.np.linalg", "True"]
