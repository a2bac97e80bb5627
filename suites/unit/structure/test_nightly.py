"""The deep tests exist, CI keeps a cell of each check, and a file with tests that need a GPU names its platform."""

import ast
import re

import pytest

from suites.cells.selection import Selection
from suites.checks.register import checks
from suites.unit.nightly import CHECKS_OF_ALL_OPERATORS, DEEP, is_deep_check
from suites.unit.structure.house import PROJECT


@pytest.mark.parametrize("beginning", DEEP)
def test_a_deep_test_exists(beginning):
    path, _, name = beginning.partition("::")
    assert (PROJECT / path).exists(), "renamed or deleted?"
    for part in filter(None, name.partition("[")[0].split("::")):
        assert re.search(rf"^ *(def|class) {part}\b", (PROJECT / path).read_text("utf-8"), re.M)


def test_every_check_runs_in_ci(request):
    selection = Selection.of(request.config.option, "kb_")
    for check in checks():
        cases = [parameter.values[0] for parameter in check.cells.chosen(selection)]
        assert not cases or not all(is_deep_check(check.name, case) for case in cases), check.name
        if check.name in CHECKS_OF_ALL_OPERATORS:
            assert {case.kernel for case in cases if not is_deep_check(check.name, case)} == {c.kernel for c in cases}


def _names(tree):
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def test_files_with_tests_for_a_gpu_name_their_platform():
    """Otherwise, on a machine with a GPU, they run on the CPU."""
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in (PROJECT / "suites/unit").rglob("test_*.py")}
    for_a_gpu = {path for path, tree in trees.items() if "gpu" in _decorators(tree)}
    assert {path.name for path in for_a_gpu} >= {"test_numba_cuda.py", "test_cuda_raw.py"}  # or "gpu" is not its name
    assert [path.name for path in for_a_gpu if "PLATFORM" not in _names(trees[path])] == []


def _decorators(tree):
    return set().union(*(_names(mark) for node in ast.walk(tree) for mark in getattr(node, "decorator_list", ())))
