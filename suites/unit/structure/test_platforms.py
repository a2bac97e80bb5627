"""A file with tests that need a GPU names its platform. Otherwise, on a machine with a GPU, they run on the CPU."""

import ast

from suites.unit.structure.house import PROJECT


def _names(tree):
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def test_files_with_tests_for_a_gpu_name_their_platform():
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in (PROJECT / "suites/unit").rglob("test_*.py")}
    for_a_gpu = {path for path, tree in trees.items() if "gpu" in _decorators(tree)}
    assert {path.name for path in for_a_gpu} >= {"test_numba_cuda.py", "test_cuda_raw.py"}  # or "gpu" is not its name
    assert [path.name for path in for_a_gpu if "PLATFORM" not in _names(trees[path])] == []


def _decorators(tree):
    return set().union(*(_names(mark) for node in ast.walk(tree) for mark in getattr(node, "decorator_list", ())))
