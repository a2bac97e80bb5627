"""Kernels of the bridge and functions of plain Numba, which share one engine: neither changes what the other runs."""

import pytest

from suites.unit.processes import output

FEATURES = "suites.unit.bridge.numba_features"

CLASS_THEN_STRING = """
import jax, jax.numpy as jnp, numba, numpy as np
from numba.experimental import jitclass
from bridge import numba_kernel

@jitclass([("factor", numba.float64)])
class Scale:
    def __init__(self, factor):
        self.factor = factor

    def times(self, value):
        return self.factor * value

@numba.njit
def kernel(x, out):
    scale = Scale(2.5)
    for i in range(x.size):
        out[i] = scale.times(x[i])

x = jnp.arange(8.0)
assert (numba_kernel(kernel, jax.ShapeDtypeStruct((8,), jnp.float32))(x) == 2.5 * x).all()
text, words = "hello", ("a", "bb", "ccc")

@numba.njit
def length(x, out):
    out[0] = len(text) + len(words[1]) + text.startswith("he")

out = np.zeros(1, np.float32)
length(np.asarray(x), out)
assert out[0] == 8
"""


@pytest.mark.parametrize("feature", ["recursive", "long"])
def test_a_function_that_a_kernel_called_is_as_it_was(feature):
    output("-m", FEATURES, f"bridge:{feature}", f"numba:{feature}")


def test_numbas_own_functions_are_as_they_were():
    """A kernel's object is never freed twice, so LLVM drops the test for no object, which a string's memory needs."""
    output("-c", CLASS_THEN_STRING)


@pytest.mark.parametrize("first", ["bridge", "numba"])
def test_every_feature_of_numba_is_right_in_both_whichever_is_first(first):
    second = {"bridge": "numba", "numba": "bridge"}[first]
    output("-m", FEATURES, first, second, first)
