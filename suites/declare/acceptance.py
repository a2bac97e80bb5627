"""Accepts the kernels of an operator, and explains to its author why a kernel does not fit its backend."""

from __future__ import annotations

from collections.abc import Sequence
from types import FunctionType
from typing import Any

from suites.backends import BACKENDS, Backend
from suites.backends.custom_kernel import custom_kernel
from suites.errors import OperatorError
from suites.kernels.jax_kernels import jax_kernel_function
from suites.kernels.kernel import Kernel


def accepted(where: str, backend: Backend, kernel: Any) -> Kernel:
    """Returns the kernel as a :class:`Kernel` of its backend.

    Args:
        where: The operator and its field, with which an error begins.
        backend: The backend for which the kernel is declared.
        kernel: A bare kernel of the backend's language, an object of the class that says how it is launched, or a
            wrapper that a function of the bridge returned. For every backend also a ``bridge.XLACustomKernel``, or a
            function of JAX arrays that calls kernels (:class:`suites.JaxKernel`).

    Raises:
        OperatorError: It is something else.
    """
    try:
        custom = custom_kernel(kernel)
        accepted_kernel = custom.of([backend.id, backend.language]) if custom is not None else backend.accept(kernel)
        if accepted_kernel is None and backend.compiled:
            accepted_kernel = jax_kernel_function(kernel)
    except OperatorError as error:
        raise OperatorError(f"{where}: {error}") from error
    if isinstance(accepted_kernel, Kernel):
        return accepted_kernel
    cure, others = backend.cure, _accepting(kernel)
    # A function without a decorator may be of any language.
    if others and not others[0].shares_language(backend) and not isinstance(kernel, FunctionType):
        cure = f"Declare it as {others[0].id!r}."
    if isinstance(kernel, FunctionType) and backend.compiled:
        cure += " A function of JAX arrays that calls kernels goes into suites.JaxKernel."
    raise OperatorError(f"{where} is {_kernel_text(kernel)}, expected {backend.expected}. {cure}")


def takes(kernel: Kernel, dtypes: Sequence[str]) -> bool:
    """Tells whether a kernel is declared for arrays of these dtypes, or for another number of arrays."""
    declared = kernel.declared_dtypes()
    return declared is None or any(
        len(one) != len(dtypes) or all(wanted in (None, dtype) for wanted, dtype in zip(one, dtypes, strict=True))
        for one in declared
    )


def _accepting(kernel: Any) -> list[Backend]:
    """Returns the backends that accept this as a kernel, except those that accept every callable."""
    return [each for each in BACKENDS.values() if not each.takes_any_callable and each.accept(kernel) is not None]


def _kernel_text(kernel: Any) -> str:
    name = getattr(kernel, "__name__", None) or getattr(kernel, "key", None)
    if isinstance(kernel, FunctionType):
        return "a lambda" if name == "<lambda>" else f"the plain Python function {name}"
    package = type(kernel).__module__.partition(".")[0]
    if package in ("builtins", "suites"):
        return f"a {type(kernel).__name__}" + (f" ({kernel!r})" if isinstance(kernel, bool | int | float) else "")
    return f"{name or 'a kernel'} ({package}'s {type(kernel).__name__})"
