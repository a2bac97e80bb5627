"""Chooses the nominal sizes that kernels are tried at: powers of two, multiples of blocks, their neighbours, others.

Some sizes are chosen anew in each session, from its seed. The shapes of an operator's arrays follow from its samples,
so an operator whose work grows with the square of its size is not tried at large sizes.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any

import jax
import numpy as np

from suites.checks.drawn.session_seed import seeds_of
from suites.declare.operator import Operator
from suites.numerics.precision import precision

BLOCKS = (32, 64, 128, 256, 512, 1024)
"""Extents of blocks of threads."""

POWERS = (2, 4, 8, 16, *BLOCKS, 2048, 4096)

MOST_SMALL = 5000
"""Random small sizes are below this."""

LARGE = (2**16, 2**20, 2**22, 2**24)
"""Large sizes; each is tried itself, or one less or one more."""

MOST_WORK = (2**25, 2**27, 2**31)
"""Elements of all arrays in the reference at which a size is too large, by the depth of the session."""

_MEASURED = (256, 1024)
"""Sizes whose work shows how it grows."""


def small_sizes(name: str, depth: int) -> list[int]:
    """Returns sizes up to 5000 for an operator: 8 in a quick session, about 30 in a full one, about 70 in a deep one.

    Args:
        name: The operator's name; each operator gets its own random sizes.
        depth: The depth of the session, see :mod:`suites.checks.drawn.depth`.
    """
    random = np.random.default_rng(seeds_of("sizes", name))
    block = int(random.choice(BLOCKS))
    others = [int(random.choice(BLOCKS)) + 1, int(random.choice(BLOCKS)) - 1, 8 * int(random.integers(3, 100))]
    if depth == 0:
        return _sorted([int(random.choice(POWERS[:4])), block, *others, *random.integers(2, MOST_SMALL, 3)])
    beside = [size + step for size in (BLOCKS if depth == 1 else POWERS) for step in (-1, 1)]
    more = [24, 48, 96, 1000, 3 * block] if depth == 1 else [*range(3, 20), 24, 40, 48, 96, 160, 1000, 3000]
    return _sorted([*POWERS, *beside, *others, *more, *random.integers(2, MOST_SMALL, 4 if depth == 1 else 24)])


def large_sizes(operator: Operator, dtype: str, depth: int) -> list[int]:
    """Returns sizes above :data:`MOST_SMALL`. None has more work than :data:`MOST_WORK`.

    A quick session takes two of :data:`LARGE`, a full one three, a deep one all. Full and deep sessions also take a
    random size between each of these and the one before. A quick session takes one below the first. The logarithms of
    random sizes are uniform.
    """
    random = np.random.default_rng(seeds_of("large sizes", operator.name))
    bases = LARGE[: 2 + depth]
    if depth < 2:
        sizes = [base + int(random.integers(-1, 2)) for base in bases]
    else:
        sizes = [base + step for base in bases for step in (-1, 0, 1)]
    ends = list(zip((MOST_SMALL, *bases), bases, strict=False))[: 1 if depth == 0 else None]
    sizes += [int(np.exp(random.uniform(np.log(low), np.log(high)))) for low, high in ends]
    return [size for size in _sorted(sizes) if work(operator, dtype, size) <= MOST_WORK[depth]]


def work(operator: Operator, dtype: str, size: int) -> float:
    """Returns about how many elements the inputs and all results in the reference have at a nominal size.

    It follows from the shapes at two small sizes, so that nothing large is made.
    """
    few, more = (_work(operator, dtype, each) for each in _MEASURED)
    power = np.log(max(more, 1) / max(few, 1)) / np.log(_MEASURED[1] / _MEASURED[0])
    # A part that does not grow hides how the rest grows; no array of this size has fewer elements than it.
    return float(more * (size / _MEASURED[1]) ** max(power, 1.0))


@functools.lru_cache(maxsize=256)
def _work(operator: Operator, dtype: str, size: int) -> int:
    inputs = operator.sample(dtype, size, 0)
    held = sum(array.size for array in inputs)
    try:
        with precision(*(array.dtype for array in inputs)):
            closed = jax.make_jaxpr(lambda *arrays: operator.reference(*arrays))(*inputs)
    except Exception:  # a reference that cannot be traced
        return held + sum(int(np.prod(out.shape)) for out in operator.outputs(*inputs))
    return held + _of_jaxpr(closed.jaxpr)


def _of_jaxpr(jaxpr: Any) -> int:
    total = 0
    for equation in jaxpr.eqns:
        own = sum(int(np.prod(variable.aval.shape)) for variable in equation.outvars)
        if equation.primitive.name == "dot_general":
            ((contracted, _), _) = equation.params["dimension_numbers"]
            own *= int(np.prod([equation.invars[0].aval.shape[axis] for axis in contracted]))
        inner = [_of_jaxpr(getattr(each, "jaxpr", each)) for each in _jaxprs(equation.params.values())]
        total += own + int(equation.params.get("length", 1) or 1) * sum(inner)
    return total


def _jaxprs(values: Iterable[Any]) -> list[Any]:
    flat = [each for value in values for each in (value if isinstance(value, tuple | list) else (value,))]
    return [each for each in flat if hasattr(each, "eqns") or hasattr(each, "jaxpr")]


def _sorted(sizes: Sequence[Any]) -> list[int]:
    return sorted({int(size) for size in sizes})
