"""Operators are taken from files and modules, or there is an error that says why not."""

from __future__ import annotations

from pathlib import Path

import pytest

from suites import catalogue, ops
from suites.catalogue import CatalogueError
from suites.listing import listing
from suites.selection import Selection

OUTSIDE = Path(__file__).with_name("ops_outside.py")


@pytest.fixture(autouse=True)
def _restored():
    yield
    catalogue.use([])


def test_without_sources_they_are_the_built_in_ones():
    catalogue.use([])
    assert catalogue.operators() == ops.operators()


def test_those_of_a_file_take_their_place():
    catalogue.use([str(OUTSIDE)])
    assert list(catalogue.operators()) == ["cube_wrong", "cube_worse", "cube_known"]


def test_a_module_is_named_with_dots():
    catalogue.use(["suites.ops.add"])
    assert list(catalogue.operators()) == ["add"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, r"my_ops\.py: there is no such file"),
        ("x = 1", r"my_ops\.py: holds no operator; expected a suites\.operator\.Operator"),
        ("import no_such_thing", r"my_ops\.py: No module named 'no_such_thing'"),
        ("1 / 0", r"my_ops\.py: cannot be imported, ZeroDivisionError: division by zero"),
        (
            "from dataclasses import replace\nfrom suites.ops.add import OPERATOR as A\nB = replace(A)",
            r"my_ops\.py: a second operator is named 'add'",
        ),
    ],
    ids=["absent", "empty", "dependency", "broken", "twice"],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path, text, message):
    file = tmp_path / "my_ops.py"
    if text is not None:
        file.write_text(text, encoding="utf-8")
    with pytest.raises(CatalogueError, match=message):
        catalogue.use([str(file)])


def test_an_unknown_module_is_named_with_what_is_expected():
    with pytest.raises(
        CatalogueError, match=r"no_such_ops: .* Give the path of a Python file, or the name of a module"
    ):
        catalogue.use(["no_such_ops"])


def test_what_is_private_is_not_tested(tmp_path):
    file = tmp_path / "my_ops.py"
    file.write_text(
        "from suites.ops.add import OPERATOR as _ADD\nfrom suites.ops.relu import OPERATOR", encoding="utf-8"
    )
    catalogue.use([str(file)])
    assert list(catalogue.operators()) == ["relu"]


def test_the_listing_says_which_kernels_there_are_and_why_not_others(tmp_path):
    file = tmp_path / "my_ops.py"
    file.write_text(
        "from dataclasses import replace\n"
        "from suites.backends import Backend\n"
        "from suites.ops.relu import OPERATOR as _RELU\n"
        "ONE = replace(_RELU, name='one', kernels={Backend.NUMBA: _RELU.kernels[Backend.NUMBA]})\n"
        "TESTED = replace(ONE, name='tested', tested=(Backend.NUMBA,))\n",
        encoding="utf-8",
    )
    catalogue.use([str(file)])
    rows = {(row.group, row.cells[0].text): [cell.text for cell in row.cells[1:]] for row in listing(Selection()).rows}
    dtypes, derivative, skipped = rows["one", "numba"]
    assert dtypes.startswith("f32 f64")
    assert derivative == "no"
    assert skipped in ("", "f16: Numba's CPU target has no float16")
    assert [backend for name, backend in rows if name == "one"] == ["jnp", "numba"]
    assert [backend for name, backend in rows if name == "tested"] == ["numba"]
