"""Kernels of the bridge and functions of plain Numba, which share one engine: neither changes what the other runs."""

import pytest

from suites.unit.processes import output

FEATURES = "suites.unit.bridge.numba_features"


@pytest.mark.parametrize("names", [["recursive"], ["long"], ["of_class", "strings"]], ids="-".join)
def test_a_function_that_a_kernel_called_is_as_it_was(names):
    output("-m", FEATURES, "bridge,numba", *names)


@pytest.mark.parametrize("ways", ["bridge,numba,bridge", "numba,bridge,numba"])
def test_every_feature_of_numba_is_right_in_both_whichever_is_first(ways):
    output("-m", FEATURES, ways)
