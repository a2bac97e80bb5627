"""A file with operators imports all that it needs from the package itself, which costs nothing to import."""

import ast
import dataclasses
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import suites
from suites import ops
from suites.unit import processes

OPS = [path for path in sorted(Path(ops.__file__).parent.glob("*/*.py")) if path.name != "__init__.py"]


def test_exports_are_there_once_each():
    assert len(set(suites.__all__)) == len(suites.__all__)
    assert set(suites._HOMES) == set(suites.__all__) <= set(dir(suites))
    for name, module in suites._HOMES.items():
        assert getattr(suites, name) is getattr(importlib.import_module(f"suites.{module}"), name)


def test_exports_are_documented():
    for name in suites.__all__:
        exported = getattr(suites, name)
        assert not callable(exported) or (exported.__doc__ or "").strip(), name


def test_checkers_of_types_see_the_exports():
    tree = ast.parse(Path(suites.__file__).read_text(encoding="utf-8"))
    (typed,) = (node for node in tree.body if isinstance(node, ast.If))
    imported = {alias.name: node.module for node in typed.body for alias in node.names}
    assert imported == {name: f"suites.{module}" for name, module in suites._HOMES.items()}


@pytest.mark.parametrize("path", OPS, ids=[f"{path.parent.name}-{path.stem}" for path in OPS])
def test_an_operator_imports_from_the_package_and_from_the_files_of_backends_alone(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ImportFrom) or not str(node.module).startswith("suites"):
            continue
        names = {alias.name for alias in node.names}
        if str(node.module).startswith("suites.ops."):
            continue  # files beside it
        if node.module == "suites":
            assert names <= set(suites.__all__)
        elif node.module == "suites.backends":
            assert names <= {"cuda_raw", "pallas", "peers"}
        else:
            backend = importlib.import_module(str(node.module))
            assert str(node.module).startswith("suites.backends.")
            assert names <= set(getattr(backend, "__all__", names))  # building blocks serve other building blocks


def test_every_export_serves_an_operator_or_a_backend():
    used = set()
    for path in OPS:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module == "suites":
                used |= {alias.name for alias in node.names}
    of_backends = {"Backend", "Kernel", "register_backend", "RawKernel", "PallasKernel"}
    of_users = {"CatalogueError", "OperatorError", "derived_truth", "Truth", "Expected", "exact"}
    of_users |= {"CustomKernel", "JaxKernel", "NumbaKernel", "operator_of"}
    assert set(suites.__all__) == used | of_backends | of_users
    assert not used & (of_backends | of_users)


USERS_FILE = """
import numba
import numpy as np
from suites import Gradient, Operator, Sizes, total_bytes, values, vectors
from suites.backends.numba_cpu import ONE_THREAD_BELOW

@numba.njit(parallel=True)
def doubled(x, out):
    if x.size < ONE_THREAD_BELOW:
        for i in range(x.size):
            out[i] = 2 * x[i]
    else:
        for i in numba.prange(x.size):
            out[i] = 2 * x[i]

OPERATOR = Operator(
    name="doubled",
    reference=lambda x: 2 * x,
    kernels={"numba_parallel": doubled},
    sample=lambda dtype, size, seed: (values(dtype, size, np.random.default_rng(seed)),),
    edges=lambda dtype: {name: (vector,) for name, vector in vectors(dtype).items()},
    gradient=Gradient(inputs=(0,)),
    bytes_read=total_bytes,
    sizes=Sizes(quick=(64,)),
)
print(OPERATOR.build(next(iter(OPERATOR.kernels)), OPERATOR.sample("float32", 8, 0)) is not None)
"""


def test_a_users_file_needs_nothing_else(tmp_path):
    (tmp_path / "my_ops.py").write_text(USERS_FILE, encoding="utf-8")
    code = "import sys; sys.path.insert(0, sys.argv[1]); import my_ops"
    assert processes.output("-c", code, tmp_path) == "True"


def test_classes_that_a_field_of_an_operator_may_hold_are_exported():
    for name in ("Operator", "Gradient", "ErrorCase", "Truth", "Expected"):
        declared = getattr(suites, name)
        types = " ".join(str(field.type) for field in dataclasses.fields(declared))
        module = vars(inspect.getmodule(declared))
        used = {word for word in types.replace("[", " ").replace("]", " ").replace(",", " ").split() if word in module}
        classes = {word for word in used if getattr(module[word], "__module__", "").startswith("suites.")}
        assert classes - {"Inputs", "Array", "Pullback"} <= set(suites.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'suites' has no attribute 'Operater'"):
        _ = suites.Operater


def test_importing_the_package_imports_nothing_heavy():
    code = (
        "import sys; before = set(sys.modules); import time; start = time.perf_counter(); import suites; "
        "took = time.perf_counter() - start; "
        "print(1e3 * took, *{name.partition('.')[0] for name in set(sys.modules) - before})"
    )
    root = Path(suites.__file__).parent.parent
    said = [
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root
        ).stdout.split()
        for _ in range(3)
    ]
    assert all(not {"jax", "numba", "numpy", "warp", "pytest", "bridge", "reports"} & set(names) for _, *names in said)
    assert min(float(ms) for ms, *_ in said) < 5
