"""A selection refuses names that nobody has, and selections of which nothing would run."""

import argparse

import pytest

from suites.backends import BACKENDS
from suites.cells.case import Case
from suites.cells.runnable import require_runnable
from suites.cells.selection import Selection
from suites.cells.tables import SAMPLES
from suites.errors import SelectionError
from suites.ops import operators
from suites.timing.timed_selection import timed_cells


def test_a_selection_comes_from_options_and_goes_to_options():
    given = {"device": "cpu", "operators": ["a.py"], "operator": ["add"], "backend": [], "dtype": ["f32"], "size": [7]}
    selection = Selection.of(argparse.Namespace(**given, profile="full"))
    prefixed = {f"kb_{name}": value for name, value in given.items()}
    assert Selection.of(argparse.Namespace(**prefixed, kb_profile="full"), "kb_") == selection
    assert selection.arguments() == [
        *("--kb-device", "cpu", "--kb-profile", "full", "--kb-operators", "a.py"),
        *("--kb-operator", "add", "--kb-dtype", "f32", "--kb-size", "7"),
    ]
    assert str(selection) == "a.py --operator add --dtype f32 --size 7 --device cpu"


def case(backend, platform="cpu", dtype="float32"):
    return Case(operators()["add"], backend, dtype, 33, platform)


@pytest.fixture
def no_half(monkeypatch):
    monkeypatch.setitem(BACKENDS["numba"].missing_dtypes, "float16", "there is no float16")


@pytest.mark.usefixtures("no_half")
def test_an_operator_without_a_kernel_that_can_run_is_refused_with_the_reason():
    half = [case(BACKENDS["numba"], dtype="float16"), case(BACKENDS["jnp"])]
    with pytest.raises(SelectionError, match=r"operator 'add' has no kernel that can run \(.*no float16"):
        require_runnable(Selection(operators=("add",)), half)
    require_runnable(Selection(operators=("add",)), [*half, case(BACKENDS["numba"])])


@pytest.mark.usefixtures("no_half")
def test_an_operator_that_nobody_named_may_be_unable_to_run():
    half = [case(BACKENDS["numba"], dtype="float16")]
    sigmoid = Case(operators()["sigmoid"], BACKENDS["numba"], "float32", 33, "cpu")
    require_runnable(Selection(sources=("ops.py",)), [*half, sigmoid])
    with pytest.raises(SelectionError, match="operator 'add' has no kernel"):
        require_runnable(Selection(sources=("ops.py",)), half)


@pytest.mark.parametrize("profile", ["quick", "full"])
def test_sizes_that_are_named_take_the_place_of_the_profile(profile):
    selection = Selection(operators=("add",), backends=("numba",), sizes=(12345,), profile=profile)
    assert {cell.size for cell in timed_cells(selection)} == {12345}
    assert {chosen.values[0].size for chosen in SAMPLES.chosen(selection)} == {12345}


def test_the_quick_profile_times_one_dtype_of_each_operator():
    cells = timed_cells(Selection())
    named = {name for name, operator in operators().items() if not operator.sizes.quick_by_name}
    assert {cell.operator.name for cell in cells} == named != set(operators())
    assert all(len({cell.dtype for cell in cells if cell.operator.name == name}) == 1 for name in named)
    assert {cell.operator.name for cell in timed_cells(Selection(operators=("csr_matmat",)))} == {"csr_matmat"}
