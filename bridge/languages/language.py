"""Describes a kernel language to operators."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


class Standing(enum.IntEnum):
    """How good a kernel is as the default of a platform: a kernel of higher standing replaces one of lower standing."""

    NONE = 0
    INTERPRETED = 1
    REFERENCE = 2
    ONE_THREAD = 3
    REGULAR = 4
    CHOSEN = 5
    """The user has chosen it."""


def _unchanged(generator: Callable[..., Any], platform: str) -> Callable[..., Any]:
    return generator


def _nothing(what: str) -> None: ...


@dataclass(frozen=True, eq=False)
class Language:
    """A language in which an operator may have a kernel. There is one object for each language.

    Attributes:
        name: The backend's name in operators, and in the descriptions of its kernels.
        platforms: The JAX platforms it has code for, and the standing of its kernels on each of them.
        adapted: Makes the generator for one platform from the one that the user registered for all of them.
        require: Raises an ImportError that names ``what`` if the language is not installed.
    """

    name: str
    platforms: Mapping[str, Standing]
    adapted: Callable[[Callable[..., Any], str], Callable[..., Any]] = _unchanged
    require: Callable[[str], None] = _nothing
