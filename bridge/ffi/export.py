"""Exports programs that call kernels: with ``jax.export``, or with the machine code of their CUDA kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.export import DisabledSafetyCheck, Exported

from bridge.errors import SignatureError
from bridge.ffi.cuda import embedded
from bridge.ffi.target import TARGETS


def export_checks() -> tuple[DisabledSafetyCheck, ...]:
    """The safety checks to disable when exporting a function that calls kernels.

    ``jax.export`` refuses custom calls that it does not know to be stable. The bridge's calls are stable, because they
    name a kernel by its content. The process that runs the exported program must define the same kernels before, with
    the same wrapper and the same versions of Python, NumPy and the kernel's language::

        exported = jax.export.export(jax.jit(f), disabled_checks=bridge.export_checks())(*args)
    """
    return tuple(DisabledSafetyCheck.custom_call(target.name) for target in TARGETS)


def export_self_contained(
    function: Callable[..., Any],
    *,
    platforms: Sequence[str] | None = None,
    disabled_checks: Sequence[DisabledSafetyCheck] = (),
) -> Callable[..., Exported]:
    """``jax.export.export`` for programs that carry the machine code of their CUDA kernels along.

    A process that runs such a program needs ``import bridge`` and a GPU of an architecture that the exporting process
    had. It needs neither the kernels' source nor Numba-CUDA, Warp or a compiler. Kernels for the CPU are not carried
    along, because their code refers to addresses in Numba's and Warp's libraries: the process has to define them.

    Such a program is code. A damaged one is refused, but nothing checks what its machine code does: run only programs
    that you trust.

    Args:
        function: The function to export, of arrays and pytrees of them, jitted or not.
        platforms: As for ``jax.export.export``.
        disabled_checks: As for ``jax.export.export``, added to the checks of :func:`export_checks`.

    Returns:
        A function of the arguments, or of their shapes and dtypes, that returns a ``jax.export.Exported``. It raises a
        PlatformError if there is no GPU to compile for, or a kernel cannot be carried along: a kernel of
        ``numba_cuda_callable``, or of Warp before 1.19.

    Raises:
        SignatureError: ``function`` cannot be called, or ``platforms`` is no list.

    Example::

        program = export_self_contained(f)(jax.ShapeDtypeStruct((1024,), jnp.float32)).serialize()
        # elsewhere
        y = jax.export.deserialize(program).call(x)
    """

    if not callable(function):
        raise SignatureError(f"export_self_contained got {function!r}, expected a function of arrays.")
    if isinstance(platforms, str) or not isinstance(platforms, Sequence | None):
        raise SignatureError(
            f"export_self_contained got the platforms {platforms!r}, expected a list of names, or None."
        )

    # A new function: JAX would reuse an earlier lowering of `function`, without machine code.
    def fresh(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    fresh.__name__ = fresh.__qualname__ = getattr(function, "__name__", "exported")

    def export(*args: Any, **kwargs: Any) -> Exported:
        checks = (*export_checks(), *disabled_checks)
        with embedded.carrying():
            return jax.export.export(jax.jit(fresh), platforms=platforms, disabled_checks=checks)(*args, **kwargs)

    return export
