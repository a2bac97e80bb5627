"""A file with operators imports all that it needs from the package itself, which costs nothing to import."""

import ast
import importlib
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


def test_checkers_of_types_see_the_exports():
    tree = ast.parse(Path(suites.__file__).read_text(encoding="utf-8"))
    (typed,) = (node for node in tree.body if isinstance(node, ast.If))
    imported = {alias.name: node.module for node in typed.body for alias in node.names}
    assert imported == {name: f"suites.{module}" for name, module in suites._HOMES.items()}


def test_operators_import_from_the_package_and_from_the_files_of_backends_alone():
    for path in OPS:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("suites"):
                names = {alias.name for alias in node.names}
                if node.module == "suites":
                    assert names <= set(suites.__all__), path
                elif node.module == "suites.backends":
                    assert names <= {"cuda_raw", "pallas", "peers"}, path
                else:
                    assert node.module.startswith(("suites.backends.", "suites.ops.")), path


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


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'suites' has no attribute 'Operater'"):
        _ = suites.Operater


def test_importing_the_package_imports_nothing_heavy():
    code = "import sys; before = set(sys.modules); import suites; print(*set(sys.modules) - before)"
    imported = {name.partition(".")[0] for name in processes.output("-c", code).split()}
    assert not {"jax", "numba", "numpy", "warp", "pytest", "bridge", "reports"} & imported
