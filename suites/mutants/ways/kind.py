"""Defines :class:`Kind`, a function with right and wrong ways to compute it, and steps that ways have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from suites import Domain

Way = Callable[..., Any]


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One function with ways to compute it.

    Attributes:
        name: The operation that it computes.
        reference: The reference, with ``jax.numpy``.
        right: Right ways, by name.
        wrong: Wrong ways, by name.
        dtypes: The tested dtypes.
        sample: The operator's ``sample``; None for the default.
        domains: The operator's ``domains``.
        tolerance: The operator's ``tolerance``.
    """

    name: str
    reference: Way
    right: dict[str, Way]
    wrong: dict[str, Way]
    dtypes: tuple[str, ...] = ("float32",)
    sample: Callable[[str, int, int], Any] | None = None
    domains: dict[str, Domain] = field(default_factory=dict)
    tolerance: float | None = None


KINDS: list[Kind] = []
FINITE = Domain(finite=True)


def kind(name: str, reference: Way, right: dict[str, Way], wrong: dict[str, Way], **more: Any) -> None:
    KINDS.append(Kind(name=name, reference=reference, right=right, wrong=wrong, **more))


def one(x: Any, value: float) -> Any:
    """A number in the dtype of an array."""
    return x.dtype.type(value)


def half(x: Any) -> Any:
    """The array with about half of its bits."""
    narrow = np.float16 if x.dtype == np.float32 else np.float32
    return x.astype(narrow).astype(x.dtype)


def wide(x: Any) -> Any:
    return x.astype(np.float64 if x.dtype != np.float64 else np.longdouble)


def fma(a: Any, b: Any, c: Any) -> Any:
    """``a * b + c``, rounded once."""
    return (wide(np.asarray(a)) * wide(np.asarray(b)) + wide(np.asarray(c))).astype(np.asarray(c).dtype)


def chain(terms: Any) -> Any:
    """The sum of an iterable of arrays or numbers, one after the other."""
    terms = iter(terms)
    total = next(terms)
    for term in terms:
        total = total + term
    return total


def pairwise(terms: Any) -> Any:
    terms = list(terms)
    while len(terms) > 1:
        terms = [chain(terms[i : i + 2]) for i in range(0, len(terms), 2)]
    return terms[0]


def blocked(terms: Any, size: int = 8) -> Any:
    terms = list(terms)
    return chain(chain(terms[i : i + size]) for i in range(0, len(terms), size))


def lanes(terms: Any, count: int = 4) -> Any:
    terms = list(terms)
    return chain(chain(terms[i::count]) for i in range(min(count, len(terms))))


def kahan(terms: Any) -> Any:
    """Neumaier's compensated sum."""
    terms = list(terms)
    total = rest = terms[0] * 0
    for term in terms:
        raised = total + term
        rest = rest + ((total - raised) + term if abs(total) >= abs(term) else (term - raised) + total)
        total = raised
    return total + rest if np.isfinite(total) and np.isfinite(rest) else chain(terms)


SUMS = {"chain": chain, "backwards": lambda t: chain(list(t)[::-1]), "pairwise": pairwise, "blocked": blocked}
