"""Features of Numba, each in a function of its own; each returns ``c`` times the sum of ``x``.

Run as a program, it calls them in the order of its arguments: ``bridge`` all from kernels, ``numba`` all from plain
Numba, ``bridge:closures`` one of them.
"""

import sys

import jax
import jax.numpy as jnp
import numba
import numpy as np
from numba import types
from numba.core import types as core_types
from numba.experimental import jitclass, structref
from numba.extending import overload

from bridge import numba_kernel

X = np.arange(1.0, 9)


@numba.njit
def tree(v, depth, c):
    return tree(v, depth - 1, c) / 2 + tree(v, depth - 2, c) / 2 if depth > 0 else v * c


@numba.njit
def recursive(x, c):
    s = 0.0
    for v in x:
        s += tree(v, x.size, c)
    return s


exec(  # longer than LLVM inlines
    "@numba.njit\ndef long(x, c):\n    s = 0.0\n    for i in range(x.size):\n        v = x[i] * c\n"
    + "".join(f"        v += np.sin(v + {k}.5) * (c - c)\n" for k in range(80))
    + "        s += v\n    return s\n"
)


@jitclass([("c", types.float64), ("kept", types.float64[::1])])
class Scaled:
    def __init__(self, c, kept):
        self.c = c
        self.kept = kept

    def total(self):
        return self.c * self.kept.sum()


@numba.njit
def of_class(x, c):
    return Scaled(c, x.copy()).total()


@numba.njit
def typed_dict(x, c):
    values = numba.typed.Dict.empty(types.unicode_type, types.float64)
    for i in range(x.size):
        values[str(i)] = x[i] * c
    s = 0.0
    for value in values.values():
        s += value
    return s


@numba.njit
def typed_list(x, c):
    values = numba.typed.List()
    for v in x:
        values.append(v * c)
    s = 0.0
    while len(values):
        s += values.pop()
    return s


@numba.njit
def reflected_list(x, c):
    values = [v * c for v in x]
    values.extend([0.0, c - c])
    values.sort()
    return sum(values)


@numba.njit
def sets(x, c):
    s = 0.0
    for v in set([v * c for v in x]):  # noqa: C403 - Numba has no set comprehensions
        s += v
    return s


WORDS = ("a", "bb", "ccc")


@numba.njit
def strings(x, c):
    s = 0.0
    for v in x:
        text = ",".join([word.upper().replace("B", "bb") for word in WORDS]) + "é"
        s += v * c * (text == "A,bbbb,CCCé") * text.startswith("A,")
    return s


@numba.njit
def closures(x, c):
    def scaled(v):
        return v * c

    s = 0.0
    for v in x:
        s += scaled(v)
    return s


@numba.vectorize
def scale_all(v, c):
    return v * c


@numba.njit
def vectorized(x, c):
    return scale_all(x, c).sum()


@numba.guvectorize([(types.float64[:], types.float64, types.float64[:])], "(n),()->(n)")
def scale_row(x, c, out):
    for i in range(x.size):
        out[i] = x[i] * c


@numba.njit
def guvectorized(x, c):
    out = np.empty_like(x)
    scale_row(x, c, out)
    return out.sum()


@numba.stencil
def scaled_point(x, c):
    return c * x[0]


@numba.njit
def stencil(x, c):
    return scaled_point(x, c).sum()


@numba.njit(parallel=True)
def parallel(x, c):
    s = 0.0
    for i in numba.prange(x.size):
        s += x[i] * c
    return s


@numba.njit
def linalg(x, c):
    return np.linalg.solve(np.eye(x.size) / c, x).sum()


@numba.njit
def dot(x, c):
    return np.dot(np.diag(np.full(x.size, c)), x).sum()


@numba.njit
def sorts(x, c):
    return (np.sort(x[::-1] * c)[np.argsort(x)]).sum()


@numba.njit
def exceptions(x, c):
    s = 0.0
    for v in x:
        try:
            if v > 0:
                raise ValueError("positive", "always")
        except Exception:
            s += v * c
    return s


@numba.cfunc(types.float64(types.float64, types.float64))
def c_scaled(v, c):
    return v * c


@numba.njit
def cfunc(x, c):
    s = 0.0
    for v in x:
        s += c_scaled(v, c)
    return s


def scaled_by(v, c):
    raise NotImplementedError


@overload(scaled_by)
def _(v, c):
    return lambda v, c: v * c


@numba.njit
def overloaded(x, c):
    s = 0.0
    for v in x:
        s += scaled_by(v, c)
    return s


@structref.register
class PairType(core_types.StructRef):  # type: ignore[misc]
    pass


class Pair(structref.StructRefProxy):  # type: ignore[misc]
    pass


structref.define_proxy(Pair, PairType, ["c", "x"])


@numba.njit
def struct(x, c):
    pair = Pair(c, x.copy())
    return pair.c * pair.x.sum()


@numba.njit(types.float64(types.float64, types.float64))
def times(v, c):
    return v * c


@numba.njit(types.float64(types.float64, types.float64))
def divided(v, c):
    return v / (1 / c)


@numba.njit
def first_class(x, c):
    s = 0.0
    for i in range(x.size):
        function = (times, divided)[i % 2]
        s += function(x[i], c)
    return s


@numba.njit
def object_mode(x, c):
    with numba.objmode(s="float64"):
        s = float(np.asarray(x).sum() * c)
    return s


@numba.njit
def generator(x, c):
    s = 0.0
    for v in _scaled_values(x, c):
        s += v
    return s


@numba.njit
def _scaled_values(x, c):
    kept = x.copy()
    for v in kept:
        yield v * c


@numba.njit
def random(x, c):
    np.random.seed(3)
    return (x * c + 0 * np.random.permutation(x)).sum()


@numba.njit(cache=True)
def cached(x, c):
    values = [each * c for each in x]
    return np.array(values[::-1]).sum()


FEATURES = [
    recursive, globals()["long"], of_class, typed_dict, typed_list, reflected_list, sets, strings, closures,
    vectorized, guvectorized, stencil, parallel, linalg, dot, sorts, exceptions, cfunc, overloaded, struct, first_class,
    object_mode, generator, random, cached,
]  # fmt: skip


def in_bridge(feature, c):
    """Calls a feature from a kernel, with a constant that LLVM sees."""

    @numba.njit
    def kernel(x, out):
        out[0] = feature(x.copy(), c)  # twice: LLVM inlines a function that is called once
        out[0] = out[0] / 2 + feature(x.copy(), c) / 2

    return float(numba_kernel(kernel, jax.ShapeDtypeStruct((1,), np.float64))(jnp.asarray(X))[0])


def in_numba(feature, c):
    """Calls a feature from plain Numba."""

    @numba.njit
    def function(x, out, c):
        out[0] = feature(x.copy(), c)

    out = np.zeros(1)
    function(X.copy(), out, c)
    return float(out[0])


def run(way, feature, factor):
    """Calls a feature in one of two ways, and looks at the result."""
    print(way, feature.__name__, flush=True)
    got = {"bridge": in_bridge, "numba": in_numba}[way](feature, factor)
    assert abs(got - factor * X.sum()) < 1e-9 * got, (got, factor * X.sum())


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    for turn, asked in enumerate(sys.argv[1:]):
        way, _, name = asked.partition(":")
        for position, each in enumerate(FEATURES):
            if name in ("", each.__name__):
                run(way, each, 2.0 + 3 * turn + position)
