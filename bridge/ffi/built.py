"""Holds a kernel that a kernel language has compiled, for the FFI targets to run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bridge.ffi.cuda.embedded import Image
from bridge.ffi.plans.callback import CallbackPlan
from bridge.ffi.plans.device import DevicePlan
from bridge.ffi.plans.host import HostPlan


@dataclass(frozen=True)
class Built:
    """A kernel that is compiled and loaded.

    Attributes:
        plan: The plan that the target executes.
        alive: Owns the memory and the machine code that the plan refers to. It lives as long as the process.
        images: Returns the machine code by compute capability for each launch of the plan, so that an exported program
            can carry it. None if the machine code cannot leave this process.
    """

    plan: HostPlan | DevicePlan | CallbackPlan
    alive: Any = None
    images: Callable[[], Sequence[Mapping[int, Image]]] | None = None
