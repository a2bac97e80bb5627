"""What an engineer reads to follow one call of a kernel under ``jax.vmap``: how many files."""

import json
import re

from suites.unit.processes import output
from suites.unit.structure.house import PROJECT

MOST = {"first": 22, "later": 18}
"""Files whose functions run between a kernel and its result. The first kernel of a process compiles the handler too."""

PROGRAM = """
import inspect, json, os, sys
import jax, jax.numpy as jnp, numba
import bridge

root, codes = os.path.dirname(bridge.__file__), set()

def note(frame, event, argument):
    codes.add(frame.f_code)

def files(factor):
    @numba.njit
    def scale(x, out):
        for i in range(x.size):
            out[i] = factor * x[i]

    codes.clear()
    sys.setprofile(note)
    result = jax.vmap(bridge.numba_kernel(scale, jax.ShapeDtypeStruct((4,), jnp.float32)))(jnp.ones((3, 4)))
    sys.setprofile(None)
    assert (result == factor).all()
    # The bodies of modules and classes, which run when they are imported, are not optimized.
    functions = {each.co_filename for each in codes if each.co_flags & inspect.CO_OPTIMIZED}
    return sorted(os.path.relpath(each, root) for each in functions if each.startswith(root))

bridge.numba_kernel  # loads the language, whose modules run functions of their own
print(json.dumps({kernel: files(factor) for factor, kernel in enumerate(("first", "later"))}))
"""


def test_a_call_is_followed_through_few_files(tmp_path):
    entered = json.loads(output("-c", PROGRAM, KERNEL_BRIDGE_CACHE_DIR=str(tmp_path)))
    for kernel, files in entered.items():
        assert 5 < len(files) <= MOST[kernel], files
    section = (PROJECT / "docs/contributing.md").read_text(encoding="utf-8").partition("## From a kernel to a")[2]
    assert re.findall(r"in (\d+)\b", section)[:2] == [str(MOST["later"]), str(MOST["first"])]
