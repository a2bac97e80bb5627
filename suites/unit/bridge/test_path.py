"""What an engineer reads to follow one call of a kernel under ``jax.vmap``: how many files, and which forms it has."""

import inspect
import json
import re

import jax
import numpy as np

import bridge
from bridge.ffi.kernel_call import KERNEL_CALL, Call
from bridge.ffi.primitive import CallPrimitive
from bridge.kernel import Compiled, Definition
from suites.unit.bridge import kernels
from suites.unit.processes import output
from suites.unit.structure.house import PROJECT

MOST = {"first": 22, "later": 18}
"""Files whose functions run between a kernel and its result. The first kernel of a process compiles the handler too."""

PROGRAM = """
import inspect, json, os, sys
import jax, jax.numpy as jnp, numba
import bridge

root, entered = os.path.dirname(bridge.__file__), set()

def note(frame, event, argument):
    code = frame.f_code
    # The bodies of modules and classes, which run when they are imported, are not optimized.
    if code.co_flags & inspect.CO_OPTIMIZED and code.co_filename.startswith(root):
        entered.add(os.path.relpath(code.co_filename, root))

def files(factor):
    @numba.njit
    def scale(x, out):
        for i in range(x.size):
            out[i] = factor * x[i]

    entered.clear()
    sys.setprofile(note)
    result = jax.vmap(bridge.numba_kernel(scale, jax.ShapeDtypeStruct((4,), jnp.float32)))(jnp.ones((3, 4)))
    sys.setprofile(None)
    assert (result == factor).all()
    return sorted(entered)

bridge.numba_kernel  # loads the language, whose modules run functions of their own
print(json.dumps({kernel: files(factor) for factor, kernel in enumerate(("first", "later"))}))
"""


def test_a_call_is_followed_through_few_files(tmp_path):
    entered = json.loads(output("-c", PROGRAM, KERNEL_BRIDGE_CACHE_DIR=str(tmp_path)))
    for kernel, files in entered.items():
        assert 5 < len(files) <= MOST[kernel], files


def test_a_kernel_has_the_four_forms_that_contributors_read_about():
    vector = jax.ShapeDtypeStruct((3,), np.float32)
    wrapper = bridge.numba_kernel(kernels.double, vector)
    (equation,) = jax.make_jaxpr(wrapper)(vector).eqns[0].params["jaxpr"].eqns
    call = equation.params["call"]
    forms = {"Definition": call.definition, "Call": call, "Compiled": call.compiled("cpu")}
    page = (PROJECT / "docs/contributing.md").read_text(encoding="utf-8")
    section = page.partition("## From a kernel to a bound call")[2].partition("\n## ")[0]
    assert len(re.findall(r"^\d\. ", section, re.MULTILINE)) == 4
    for name, form in forms.items():
        assert f"`{name}`" in section
        assert name in {kind.__name__ for kind in type(form).__mro__}
    for file in re.findall(r"`(bridge/\w+/\w+\.py)`", section):
        assert any(inspect.getfile(kind).endswith(file) for kind in (Definition, Compiled, Call, CallPrimitive))
    assert equation.primitive in KERNEL_CALL.forms
    assert re.findall(r"in (\d+)\b", section) == [str(MOST["later"]), str(MOST["first"])]
