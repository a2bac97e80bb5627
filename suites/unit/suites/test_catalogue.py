"""Operators are taken from files and modules, or there is an error that says why not."""

import sys
from pathlib import Path

import pytest

from suites.cells import catalogue
from suites.cells.catalogue import CatalogueError
from suites.cells.selection import Selection
from suites.commands.listing import listing
from suites.unit.processes import output
from suites.unit.suites.git_repositories import OPERATORS

OUTSIDE = Path(__file__).with_name("ops_outside.py")


pytestmark = pytest.mark.usefixtures("folder")


WRONG = {
    "empty": (
        "x = 1",
        r"my_ops\.py: holds no operator\. Give it one under a public name: OPERATOR = suites\.Operator\(",
    ),
    "undeclared": (
        "import bridge\nclip_op = bridge.XLACustomKernel('clip')",
        r"my_ops\.py: holds no operator, but the XLACustomKernel clip_op\. .* suites\.operator_of\(clip_op\)",
    ),
    "dependency": ("\nimport no_such_thing", r"my_ops\.py: No module named 'no_such_thing' \(.*/my_ops\.py:2\)$"),
    "syntax": (
        "x = (1,\n",
        r"my_ops\.py: cannot be imported, SyntaxError: '\(' was never closed \(my_ops.py, line 1\)$",
    ),
    "operator": (
        OPERATORS.replace('"numba":', '"nunba":'),
        r"my_ops\.py: twice: kernels: there is no backend 'nunba'. Did you mean 'numba'\? .* \(.*/my_ops\.py:9\)$",
    ),
}


@pytest.mark.parametrize(("text", "message"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_with_a_file_is_said_in_one_line(tmp_path, text, message):
    file = tmp_path / "my_ops.py"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(CatalogueError, match=message) as error:
        catalogue.use([str(file)])
    assert "\n" not in str(error.value)


def test_operators_of_one_name_in_two_files_are_told_with_both(tmp_path):
    for name in ("one.py", "two.py"):
        (tmp_path / name).write_text(OPERATORS, encoding="utf-8")
    one, two = str(tmp_path / "one.py"), str(tmp_path / "two.py")
    with pytest.raises(
        CatalogueError, match=rf"^{two}: a second operator is named 'twice', as one of {one}. Rename one"
    ):
        catalogue.use([one, two])


def test_an_unknown_module_is_named_with_what_is_expected(tmp_path, monkeypatch):
    with pytest.raises(
        CatalogueError, match=r"no_such_ops: .* Give the path of a Python file, or the name of a module"
    ):
        catalogue.use(["no_such_ops"])
    (tmp_path / "near_ops.py").write_text(OPERATORS, encoding="utf-8")
    monkeypatch.setattr("sys.path", [entry for entry in sys.path if entry])
    with pytest.raises(CatalogueError, match=r"near_ops: there is no such module. Did you mean near_ops\.py\?"):
        catalogue.use(["near_ops"])


@pytest.mark.parametrize("name", ["random", "suites", "conftest"])
def test_a_file_may_have_the_name_of_another_module(tmp_path, name):
    """In a process of its own, so that what comes later is imported beside the file."""
    (tmp_path / f"{name}.py").write_text(f"from {name}_beside import NAME\n{OPERATORS}", encoding="utf-8")
    (tmp_path / f"{name}_beside.py").write_text("NAME = 1", encoding="utf-8")
    code = (
        "from suites.cells import catalogue; "
        f"catalogue.use([{str(tmp_path / f'{name}.py')!r}]); catalogue.check('cpu'); "
        "import random, numba, operator, suites.numerics.error_model, suites.ops.add; "
        "random.random, numba.njit, operator.add; "
        "print(*catalogue.operators())"
    )
    assert output("-c", code, cwd=OUTSIDE.parents[3]) == "twice"


def test_what_a_function_returns_is_looked_at_before_any_cell_runs(tmp_path):
    file = tmp_path / "my_ops.py"
    file.write_text(OPERATORS.replace('name="twice",', 'name="twice", sample=lambda *_: None,'), encoding="utf-8")
    catalogue.use([str(file)])
    with pytest.raises(CatalogueError, match=r"^twice: sample\('float32', 1, 0\): input 0 is None"):
        catalogue.check("cpu")
    catalogue.check("cpu", ["another"])  # the one at fault is not chosen


def test_the_listing_says_which_kernels_there_are_and_why_not_others(tmp_path):
    file = tmp_path / "my_ops.py"
    file.write_text(
        "from dataclasses import replace\n"
        "from suites.backends import BACKENDS\n"
        "from suites.ops.sigmoid import OPERATOR as _RELU\n"
        "ONE = replace(_RELU, name='one', kernels={'numba': _RELU.kernels[BACKENDS['numba']]})\n"
        "TESTED = replace(ONE, name='tested', tested=('numba',))\n",
        encoding="utf-8",
    )
    catalogue.use([str(file)])
    table = listing(Selection())
    rows = {(row[0].text, row[1].text): [cell.text for cell in row[2:]] for row in table.rows}
    assert "one: truth from the reference, derived bound" in table.notes
    dtypes, derivative, skipped = rows["one", "numba"]
    assert dtypes.startswith("f32 f64")
    assert (derivative, skipped) == ("no", "")
    assert [backend for name, backend in rows if name == "one"] == ["jnp", "numba"]
    assert [backend for name, backend in rows if name == "tested"] == ["numba"]
