"""What is compared on one kind of device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from suites.dispatch.modes import Mode
from suites.dispatch.path import PathSpec
from suites.dispatch.targets import Target


@dataclass(frozen=True)
class Platform:
    """A kind of device with its paths, modes and targets.

    Attributes:
        name: As JAX names it: ``cpu`` or ``cuda``.
        size: Elements of each array.
        modes: What is measured, in the order of the report's columns.
        paths: What is compared, in the order of the report's rows.
        required: The path without which there is nothing to report.
        references: By mode, the path that the report's ratios divide by.
        targets: The bar.
    """

    name: str
    size: int
    modes: tuple[Mode, ...]
    paths: tuple[PathSpec, ...]
    required: str
    references: Mapping[str, str]
    targets: tuple[Target, ...]
