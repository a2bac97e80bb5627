"""A function's digest changes exactly when the code that Numba would compile changes."""

import math
import textwrap
import types
from typing import Any

import numba
import numpy as np
import pytest

from bridge.source.content import PROCESS_LOCAL, function_digest
from suites.unit.processes import output

SCALE = 2.0
TABLE = np.arange(4.0)
settings: Any = types.ModuleType("settings")
settings.GAIN = 3


def define(source, **names):
    namespace = dict(names)
    exec(textwrap.dedent(source), namespace)
    return namespace["kernel"]


BODY = "def kernel(x):\n    return x * SCALE\n"


def test_the_same_code_and_values_agree():
    assert function_digest(define(BODY, SCALE=2.0)) == function_digest(define(BODY, SCALE=2.0))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (define(BODY, SCALE=2.0), define(BODY, SCALE=3.0)),
        (define(BODY, SCALE=2.0), define(BODY, SCALE=2)),
        (define(BODY, SCALE=0.0), define(BODY, SCALE=-0.0)),
        (define(BODY, SCALE=TABLE), define(BODY, SCALE=TABLE + 1)),
        (define(BODY, SCALE=TABLE), define(BODY, SCALE=TABLE.astype(np.float32))),
        (define(BODY, SCALE=math.sin), define(BODY, SCALE=math.cos)),
        (define(BODY, SCALE=np.sin), define(BODY, SCALE=np.cos)),
        (define(BODY, SCALE=numba.float32), define(BODY, SCALE=numba.float64)),
        (define(BODY, SCALE=(1, 2)), define(BODY, SCALE=[1, 2])),
        (define(BODY), define(BODY.replace("*", "+"))),
        (define("def kernel(x, n=1): return n"), define("def kernel(x, n=2): return n")),
        (define("def kernel(x): return 'a'"), define("def kernel(x): return 'b'")),
    ],
)
def test_a_change_that_reaches_the_compiled_code_changes_it(one, other):
    assert function_digest(one) != function_digest(other)


def closing_over(value):
    def kernel(x):
        return x * value

    return kernel


def test_closure_variables_count():
    assert function_digest(closing_over(1)) == function_digest(closing_over(1))
    assert function_digest(closing_over(1)) != function_digest(closing_over(2))


def test_called_functions_count():
    def caller(helper):
        return define("def kernel(x): return helper(x)", helper=numba.njit(helper))

    assert function_digest(caller(closing_over(1))) == function_digest(caller(closing_over(1)))
    assert function_digest(caller(closing_over(1))) != function_digest(caller(closing_over(2)))


def test_attributes_of_modules_count():
    source = "def kernel(x): return x * settings.GAIN"
    before = function_digest(define(source, settings=settings))
    settings.GAIN = 4
    after = function_digest(define(source, settings=settings))
    settings.GAIN = 3
    assert before != after


def test_compiler_options_count():
    kernel = closing_over(1)
    assert function_digest(kernel, {"fastmath": True}) != function_digest(kernel, {"fastmath": False})


def test_recursive_functions_end():
    kernel = define("def kernel(x): return kernel(x - 1) if x else 0")
    assert function_digest(kernel) == function_digest(define("def kernel(x): return kernel(x - 1) if x else 0"))


def test_an_object_without_content_makes_the_digest_local():
    thing, other = object(), object()
    assert function_digest(closing_over(thing)) == function_digest(closing_over(thing))
    assert function_digest(closing_over(thing)) != function_digest(closing_over(other))
    assert function_digest(closing_over(thing)).startswith(PROCESS_LOCAL)
    assert not function_digest(closing_over(1)).startswith(PROCESS_LOCAL)


@pytest.mark.parametrize(
    "source",
    [
        "def kernel(x, out):\n    out[0] = np.sum(x) + x.size + np.float32(1)",
        "def kernel(x, out):\n    for i in numba.prange(x.size):\n        out[i] = np.tile(x, 2)[i]",
        "def kernel(x, out):\n    i = cuda.grid(1)\n    cuda.syncthreads()\n    cuda.atomic.add(out, 0, x[i])",
        "def kernel(x, out):\n    out[grid(1)] = size(x)",
    ],
)
def test_what_libraries_define_keeps_it_portable(source):
    cuda = pytest.importorskip("numba.cuda", reason="numba-cuda is not installed")
    digest = function_digest(define(source, np=np, numba=numba, cuda=cuda, grid=cuda.grid, size=np.size))
    assert not digest.startswith(PROCESS_LOCAL)


def test_it_is_the_same_in_another_process_whatever_the_hash_seed():
    program = textwrap.dedent(
        """
        import math, numba, numpy as np
        from bridge.source.content import function_digest
        TABLE = np.arange(4.0)
        @numba.njit(parallel=True)
        def helper(v): return math.exp(v) + TABLE[1]
        def kernel(x, out):
            for i in range(x.size):
                out[i] = helper(x[i]) if x[i] in (1, 2) else 0
        print(function_digest(kernel, {"b": 1, "a": {"nnan", "ninf"}}))
        """
    )
    digests = {output("-c", program, PYTHONHASHSEED=seed) for seed in ("1", "2")}
    assert len(digests) == 1
