"""Lets ``jax.export`` export programs that call kernels."""

from __future__ import annotations

from jax.export import DisabledSafetyCheck

from bridge.ffi.target import TARGETS


def export_checks() -> tuple[DisabledSafetyCheck, ...]:
    """The safety checks to disable when exporting a function that calls kernels.

    ``jax.export`` refuses custom calls that it does not know to be stable. The bridge's calls are stable, because they
    name a kernel by its content. The process that runs the exported program must define the same kernels before, with
    the same wrapper and the same versions of Python, NumPy and the kernel's language::

        exported = jax.export.export(jax.jit(f), disabled_checks=bridge.export_checks())(*args)
    """
    return tuple(DisabledSafetyCheck.custom_call(target.name) for target in TARGETS)
