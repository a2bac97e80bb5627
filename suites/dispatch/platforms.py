"""Describes the comparison on one kind of device: its paths, modes and targets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from suites.dispatch.modes import Mode
from suites.dispatch.path import CallPath


@dataclass(frozen=True)
class PathSpec:
    """A path before it is built.

    Attributes:
        name: Short, for the command line and the records.
        title: The path in words, for tables.
        build: Returns the path, or raises :class:`suites.dispatch.path.PathUnavailableError`. It imports the libraries
            that are optional.
        modes: The modes that the path takes part in; empty for all.
    """

    name: str
    title: str
    build: Callable[[], CallPath]
    modes: tuple[Mode, ...] = ()

    def takes_part(self, mode: Mode) -> bool:
        """Returns whether the path is measured in a mode."""
        return not self.modes or mode in self.modes


@dataclass(frozen=True)
class Limit:
    """A target: in a mode, the largest ratio of the time of a path to the time of another path.

    The median of the ratios of all rounds counts.
    """

    mode: str
    path: str
    other: str
    ratio: float


@dataclass(frozen=True)
class Platform:
    """A kind of device with its paths, modes and targets.

    Attributes:
        name: The name that JAX gives it: ``cpu`` or ``cuda``.
        size: Elements of each array.
        modes: The modes, in the order of the columns.
        paths: The paths, in the order of the lines.
        required: The path that must run; without it, the run has failed.
        references: By mode, the path that ratios refer to.
        targets: The targets.
    """

    name: Literal["cpu", "cuda"]
    size: int
    modes: tuple[Mode, ...]
    paths: tuple[PathSpec, ...]
    required: str
    references: Mapping[str, str]
    targets: tuple[Limit, ...]

    def limits(self, mode: str, path: str) -> dict[str, float]:
        """Returns the targets of a path in a mode: the largest ratio, by the other path."""
        return {target.other: target.ratio for target in self.targets if (target.mode, target.path) == (mode, path)}
