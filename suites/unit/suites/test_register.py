"""Checks register themselves, each under a name and a function of its own."""

import pytest

from suites.cells.tables import KERNELS
from suites.checks.register import CheckError, check, check_of, check_of_id, checks


def test_every_check_is_found_by_its_test_and_says_what_it_sees():
    for each in checks():
        assert check_of(each.file, each.function) is each
        assert check_of_id(f"suites/checks/{each.file.name}::{each.function}[add-numba-f32-33-cpu]") is each
        assert each.sees
    assert check_of_id("suites/unit/suites/test_register.py::test_kernel_compiles[add]") is None


def test_a_name_is_taken_once():
    with pytest.raises(CheckError, match=r"'vmap' is the name of test_each_element_of_a_batch_is_right .*Rename one"):

        @check("vmap", sees="nothing new", cells=KERNELS)
        def test_other(case):
            pass
