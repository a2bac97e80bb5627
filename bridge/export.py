"""What ``jax.export`` needs to know about the bridge."""

from __future__ import annotations

from jax.export import DisabledSafetyCheck

from bridge.ffi.target import TARGETS


def export_checks() -> tuple[DisabledSafetyCheck, ...]:
    """The safety checks to disable when exporting a function that calls kernels.

    ``jax.export`` refuses custom calls that it does not know to be stable. The bridge's are: they name a kernel by its
    content. The process that runs the exported program must define the same kernels, with the same wrapper and under
    the same Python version, before it runs::

        exported = jax.export.export(jax.jit(f), disabled_checks=bridge.export_checks())(*args)
    """
    return tuple(DisabledSafetyCheck.custom_call(target.name) for target in TARGETS)
