"""Checks register themselves, each under a name and a function of its own."""

import inspect

import pytest

from suites.cells.tables import KERNELS
from suites.checks import register
from suites.checks.register import CheckError, check, check_of, check_of_id, checks


def test_checks_are_known_by_name_and_by_test_in_the_order_of_tables():
    names = [each.name for each in checks()]
    assert len(set(names)) == len(names)
    assert names[:3] == ["compiled", "edges", "drawn"]
    files = list(dict.fromkeys(each.file.stem.removeprefix("test_") for each in checks()))
    assert files == list(register.FILES)
    for each in checks():
        assert check_of(each.file, each.function) is each
        assert check_of_id(f"suites/checks/{each.file.name}::{each.function}[add-numba-f32-33-cpu]") is each
        assert inspect.cleandoc(each.sees) == each.sees != ""
    assert check_of_id("suites/unit/suites/test_ptx.py::test_kernel_compiles[add]") is None


def test_a_name_is_taken_once():
    with pytest.raises(CheckError, match=r"'vmap' is the name of test_each_element_of_a_batch_is_right .*Rename one"):

        @check("vmap", sees="nothing new", cells=KERNELS)
        def test_other(case):
            pass
