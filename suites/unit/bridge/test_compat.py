"""Insides of other libraries: one that has changed is an AbiError that names the library, and no wrong result."""

import warnings

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest

from bridge import AbiError, AbiWarning, numba_kernel
from bridge.compat import numba as of_numba
from bridge.compat.library import Library

X = jnp.arange(4.0)


def new_kernel(parallel=False):
    @numba.njit(parallel=parallel)
    def double(x, out):
        for i in numba.prange(x.size):
            out[i] = 2 * x[i]

    return numba_kernel(double, jax.ShapeDtypeStruct((4,), np.float32))


def test_a_missing_name_says_what_is_installed_and_what_was_tried():
    library = Library("numpy", "1.0", "99", {})
    with pytest.raises(AbiError, match=rf"numpy {np.__version__}: numpy\.a\.b is missing\. Install .* 1\.0 to 99\."):
        library.get(np, "a.b")


def test_a_newer_library_is_warned_of_once_and_its_patches_are_not():
    major, minor, _ = np.__version__.split(".")
    with warnings.catch_warnings(record=True, action="always") as caught:
        for newest in (f"{major}.{minor}", "1.26"):
            library = Library("numpy", "1.0", newest, {})
            assert [library.get(np, "pi") for _ in range(2)] == [np.pi] * 2
    assert [each.category for each in caught] == [AbiWarning]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("_FIELDS", ("data", "shape"), "an array has the fields"),
        ("_RUNTIME", {of_numba.PARALLEL_FOR: "void (ptr)"}, r"numba_parallel_for is void \(ptr, .*, not void \(ptr\)"),
    ],
)
def test_another_layout_of_numbas_code_is_an_error(monkeypatch, name, value, message):
    call = new_kernel(parallel=True)
    monkeypatch.setattr(of_numba, name, value)
    with pytest.raises(AbiError, match=rf"does not understand numba .*{message}"):
        call(X)
    monkeypatch.undo()
    np.testing.assert_array_equal(call(X), 2 * X)


def test_another_launch_of_numba_cuda_is_an_error(monkeypatch):
    of_cuda = pytest.importorskip("bridge.compat.numba_cuda", reason="numba-cuda is not installed")
    for name, check in (("_FIELDS", of_cuda.check_layout), ("launch_by_numba", of_cuda.patch)):
        monkeypatch.setattr(of_cuda, name, lambda self, kernel: None)
        check.cache_clear()
        with pytest.raises(
            AbiError, match=r"does not understand numba-cuda .*(fields|takes self kernel, not self args)"
        ):
            check()
