"""Describes a kernel language to operators and to the machinery that compiles and calls its kernels."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


class Standing(enum.IntEnum):
    """How well a kernel does as the default of a platform: one of higher standing takes the place of a lower one."""

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


@dataclass(frozen=True)
class Language:
    """A language that an operator may have a kernel in.

    Attributes:
        name: The backend's name in operators; also the first part of the description of each of its kernels.
        platforms: The JAX platforms it has code for, each with the standing of its kernels there.
        adapted: Makes the generator for one platform of what the user registered for all of them.
        require: Raises an ImportError that names ``what`` if the language is not installed.
    """

    name: str
    platforms: Mapping[str, Standing]
    adapted: Callable[[Callable[..., Any], str], Callable[..., Any]] = _unchanged
    require: Callable[[str], None] = _nothing
