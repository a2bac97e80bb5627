"""What ``import bridge`` loads, and that every public name works although it is loaded when it is first used."""

import pytest

import bridge
from bridge.table import LANGUAGES
from suites.unit import processes


def test_importing_the_bridge_loads_nothing_but_jax_llvm_and_its_own_modules():
    program = (
        "import jax, sys; before = set(sys.modules); import bridge; "
        "print(*{each.partition('.')[0] for each in set(sys.modules) - before} - sys.stdlib_module_names)"
    )
    assert set(processes.output("-c", program).split()) == {"bridge", "llvmlite"}


UNCHANGED = """
import atexit, inspect, logging, os, signal, sys, threading, warnings
import jax, jax.numpy as jnp, jax.export, jax.ffi, jaxlib, llvmlite.binding, numba, numba.np.linalg, numpy as np
import numba.core.codegen, numba.core.runtime.nrt, numba.np.ufunc.parallel
from numba.core.registry import cpu_target
try:
    import numba.cuda.dispatcher, numba.cuda.cudadrv.driver
except ImportError:
    pass

def members():
    \"\"\"The attributes of the modules and classes of these libraries, by where they are.\"\"\"
    found = {}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in {"jax", "jaxlib", "numba", "numba_cuda", "llvmlite", "numpy"}:
            for key, value in list(vars(module).items()):
                found[name, key] = value
                if inspect.isclass(value):
                    found |= {(name, key, member): each for member, each in list(vars(value).items())}
    return found

def settings():
    return (
        dict(os.environ), list(sys.meta_path), list(sys.path_hooks), list(sys.path), list(warnings.filters),
        atexit._ncallbacks(), sys.excepthook, threading.excepthook, sys.getswitchinterval(), sys.gettrace(),
        [signal.getsignal(each) for each in signal.valid_signals()], list(logging.root.handlers), np.geterr(),
        dict(vars(numba.config)), {name: jax.config.values[name] for name in jax.config.values},
        [type(cpu_target.target_context.codegen()._engine._ee._modules)],
    )

def changed():
    after = members()
    return [key for key, value in before.items() if key not in after or after[key] is not value]

before, set_before = members(), settings()
import bridge
print(*changed(), set_before == settings(), len(before) > 10_000)

@numba.njit(parallel=True)
def kernel(x, out):
    for i in numba.prange(out.size):
        out[i] = 2 * x[i]
call = bridge.numba_kernel(kernel, jax.ShapeDtypeStruct((3,), np.float32))
assert jax.vmap(call)(np.ones((2, 3), np.float32)).sum() == 12
# Numba and JAX count what they compile.
print(*(key for key in changed() if callable(before[key])), set_before[0] == dict(os.environ))
"""


FIRST_KERNEL = """
import sys, bridge, jax.numpy as jnp, warp as wp
wp.config.quiet = True

@wp.kernel
def double(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    out[wp.tid()] = 2.0 * x[wp.tid()]

print(bridge.jax_kernel(double)(jnp.ones(3))[0][0], [each for each in sys.modules if "warp.callable" in each])
"""


def test_launching_one_kernel_of_warp_loads_nothing_of_the_recording_of_functions(tmp_path):
    pytest.importorskip("warp")
    (path := tmp_path / "first.py").write_text(FIRST_KERNEL)  # Warp reads the source of a kernel
    assert processes.output(str(path)).splitlines()[-1] == "2.0 []"


def test_neither_the_import_nor_the_first_kernel_on_the_cpu_changes_anything_elsewhere():
    assert processes.output("-c", UNCHANGED).splitlines() == ["True True", "True"]


@pytest.mark.parametrize("name", ["cuda_raw_kernel", "release"])
def test_each_name_can_be_the_first_one_that_is_used(name):
    program = f"import bridge; print(bridge.{name} is bridge.{name}); from bridge import {name}"
    assert processes.output("-c", program) == "True"


def test_every_error_and_every_function_of_a_language_is_public():
    homes = {each.function: each.module for each in LANGUAGES.values() if each.function}
    homes |= {name: "bridge.errors" for name, value in vars(bridge.errors).items() if isinstance(value, type)}
    assert homes.items() <= bridge._HOMES.items()


def test_dir_lists_what_there_is():
    assert {*bridge.__all__, "__version__"} <= set(dir(bridge))
    with pytest.raises(AttributeError, match="module 'bridge' has no attribute 'numba_kernle'"):
        bridge.numba_kernle  # noqa: B018
