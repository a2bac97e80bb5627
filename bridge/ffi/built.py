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
        alive: Owns the memory and the machine code that the plan refers to.
        scratch: Bytes of each temporary buffer of a call. These are uint8 results after the kernel's own results.
        guarded: Indices of the inputs that the kernel gets copies of, because it is not shown to leave them unchanged.
            The plan has a further output for each, of the same type, which comes last and shares the copy's buffer.
        images: Returns the machine code by compute capability for each launch of the plan, so that an exported program
            can carry it. None if the machine code cannot leave this process.
    """

    plan: HostPlan | DevicePlan | CallbackPlan
    alive: Any = None
    scratch: tuple[int, ...] = ()
    guarded: tuple[int, ...] = ()
    images: Callable[[], Sequence[Mapping[int, Image]]] | None = None
