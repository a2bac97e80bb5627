"""What ``import bridge`` loads, and that every public name works although it is loaded when it is first used."""

import ast
import inspect

import pytest

import bridge
from suites.unit import processes

LOADED = {
    "bridge.errors", "bridge.ffi", "bridge.ffi.forked", "bridge.ffi.native", "bridge.ffi.native.abi",
    "bridge.ffi.native.addresses", "bridge.ffi.native.c_declarations", "bridge.ffi.native.lasting",
    "bridge.ffi.native.table", "bridge.ffi.native.trampoline", "bridge.ffi.target", "bridge.openmp", "bridge.source",
    "bridge.source.meanings", "bridge.source.numba_notes", "bridge.source.on_import",
}  # fmt: skip
"""They register the native handlers, and set what has to be set before Numba is imported."""


def test_importing_the_bridge_loads_no_compiler():
    heavy = {"numba", "llvmlite", "warp", "pandas", "cuda", "msgspec", "platformdirs"}
    program = f"import bridge, sys; print(*{heavy} & {{each.partition('.')[0] for each in sys.modules}})"
    assert processes.output("-c", program) == ""


def test_importing_the_bridge_loads_these_modules_of_its_own():
    program = "import bridge, sys; print(*(each for each in sys.modules if each.startswith('bridge.')))"
    assert set(processes.output("-c", program).split()) == LOADED


def test_importing_the_bridge_loads_nothing_but_jax_and_its_own_modules():
    program = (
        "import jax, sys; before = set(sys.modules); import bridge; "
        "print(*{each.partition('.')[0] for each in set(sys.modules) - before})"
    )
    assert set(processes.output("-c", program).split()) <= {"bridge", "mmap"}


@pytest.mark.parametrize("name", ["numba_kernel", "cuda_raw_kernel", "XLACustomKernel", "release", "AbiError", "ffi"])
def test_each_name_can_be_the_first_one_that_is_used(name):
    program = f"import bridge; print(bridge.{name} is bridge.{name}); from bridge import {name}"
    assert processes.output("-c", program) == "True"


def test_static_analysers_see_every_name_where_it_is_loaded_from():
    tree = ast.parse(inspect.getsource(bridge))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {alias.name: node.module for node in block.body for alias in node.names}
    del seen["Entry"]  # the type of a helper
    homes = {name: bridge._HOMES.get(name, "bridge.errors") for name in bridge.__all__}
    assert seen == homes


def test_dir_lists_what_there_is():
    assert {*bridge.__all__, "languages", "ffi", "__version__"} <= set(dir(bridge))
    with pytest.raises(AttributeError, match="module 'bridge' has no attribute 'numba_kernle'"):
        bridge.numba_kernle  # noqa: B018


def test_a_name_can_be_replaced_and_put_back(monkeypatch):
    before = bridge.numba_kernel
    with monkeypatch.context() as patch:
        patch.setattr(bridge, "numba_kernel", None)
        assert bridge.numba_kernel is None
    assert bridge.numba_kernel is before


IDENTITY = """
{first}
{second}
import jax, numpy as np
ran = []
@numba.njit("void(float32[::1], float32[::1])")
def double(x, out):
    for i in range(x.size):
        out[i] = 2 * x[i]
from bridge import numba_kernel
from bridge.source.numba_notes import notes_of
(compiled,) = double.overloads.values()
from bridge.languages.numba_cpu.source_rules import rules_of
print(notes_of(compiled.library) is not None, rules_of(compiled).meanings(double.py_func) is not None)
print(*(each._name for each in sys.meta_path if type(each).__module__.startswith("bridge")))
"""


@pytest.mark.parametrize("imports", [("import bridge", "import numba"), ("import numba", "import bridge")])
def test_numba_takes_notes_whether_it_is_imported_before_the_bridge_or_after(imports):
    program = IDENTITY.format(first=imports[0], second=imports[1])
    waits = "numba.cuda.core.compiler"  # nothing has imported it
    assert processes.output("-c", "import sys\n" + program) == f"True True\n{waits}"


def test_a_hook_that_waits_for_numba_leaves_the_module_as_its_own_loader_makes_it():
    program = (
        "import bridge, numba.core.codegen as c, inspect; "
        "print(type(c.__loader__).__module__, c.__spec__.loader is c.__loader__, len(inspect.getsource(c)) > 1000)"
    )
    assert processes.output("-c", program) == "_frozen_importlib_external True True"
