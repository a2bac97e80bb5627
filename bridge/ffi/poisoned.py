"""Makes the targets that fill the outputs of a kernel before they run it, for debug mode."""

from __future__ import annotations

import functools

from bridge.ffi.cuda import execution
from bridge.ffi.plans import poison
from bridge.ffi.target import Target


@functools.cache
def poisoned(target: Target) -> Target:
    """The target that runs the entries of ``target`` after it has filled their outputs."""
    on_cpu = target.platform == "cpu"
    make_fill = poison.host_fill if on_cpu else execution.device_fill
    return target.variant("_poisoned", lambda execute: poison.fill_before(execute, make_fill(), not on_cpu), on_cpu)
