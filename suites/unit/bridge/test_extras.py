"""Without Warp or numba-cuda: what does not need them works, and what does says what to install, in one line."""

import textwrap
import tomllib

from bridge.table import LANGUAGES
from suites.unit import processes
from suites.unit.docs.pages import PROJECT

INSTALL_CUDA, INSTALL_WARP = (LANGUAGES[name].cure for name in ("numba_cuda", "warp"))

BLOCK = """
import sys
from importlib.abc import MetaPathFinder

class Blocked(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {packages!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}")

sys.meta_path.insert(0, Blocked())

import jax, numba, numpy as np
import bridge
from bridge import *

OUT = jax.ShapeDtypeStruct((3,), np.float32)
X = np.arange(3, dtype=np.float32)

def say(function):
    try:
        function()
    except bridge.BridgeError as error:
        assert isinstance(error, ImportError)
        print(error)
"""


def without(packages, program):
    """The lines that a program prints in a process in which some packages cannot be imported."""
    return processes.output("-c", BLOCK.format(packages=packages) + textwrap.dedent(program)).splitlines()


WARP = f"needs NVIDIA Warp, which does not import (No module named 'warp'). {INSTALL_WARP}"


def test_the_row_of_a_language_names_packages_of_the_extras():
    declared = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    known = {each.partition(";")[0] for extra in declared.values() for each in extra} | {"jax[cuda13]"}
    for language in LANGUAGES.values():
        assert {*language.packages} <= known, language.name
        assert all(f'"{each}"' in language.cure for each in language.packages)


def test_without_warp_other_kernels_work_and_its_functions_say_what_to_install():
    lines = without(
        ("warp",),
        """
        @numba.njit
        def double(x, out):
            for i in range(x.size):
                out[i] = 2 * x[i]

        op = XLACustomKernel("double", outs=lambda x: x)
        op.def_numba_kernel(lambda outs: numba_kernel(double, outs[0]))
        with debug_mode():
            print(op(X).tolist(), op.explain(X)["cpu"].backend, release() >= 0, "warp" in sys.modules)
        say(lambda: bridge.jax_kernel(print))
        say(lambda: jaxtype_to_warptype(np.float32))
        say(lambda: bridge.jaxinfo_to_warpinfo(OUT))
        say(lambda: op.def_warp_kernel(lambda outs: print))
        print(set(bridge.__all__) <= set(dir(bridge)), jax_kernel.__name__, "warp-lang" in jax_kernel.__doc__)
        """,
    )
    assert lines == [
        "[0.0, 2.0, 4.0] numba True False",
        f"jax_kernel {WARP}",
        f"jaxtype_to_warptype {WARP}",
        f"jaxinfo_to_warpinfo {WARP}",
        f"double: def_warp_kernel {WARP}".replace("No module", "no module"),
        "True jax_kernel True",
    ]


def test_without_numba_cuda_its_functions_say_what_to_install():
    lines = without(
        ("numba_cuda", "cuda"),
        """
        say(lambda: numba_cuda_kernel(print, OUT))
        say(lambda: numba_cuda_callable(print, OUT))
        say(lambda: cuda_raw_kernel("source", "name", OUT))
        """,
    )
    assert lines == [
        f"CUDA kernels need numba-cuda, which is not installed. {INSTALL_CUDA}",
        f"CUDA kernels need numba-cuda, which is not installed. {INSTALL_CUDA}",
        f"cuda_raw_kernel needs cuda-core, which does not work (No module named 'cuda'). {INSTALL_CUDA}",
    ]
