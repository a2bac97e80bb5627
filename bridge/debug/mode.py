"""Switches on the checks of operators and kernels that are called in a context, or by an environment variable."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import jax

from bridge.debug.agreement import REFERENCE_BACKEND, check_rtol
from bridge.debug.findings import raise_kept
from bridge.errors import SignatureError

VARIABLE = "KERNEL_BRIDGE_DEBUG"
"""The environment variable for checks outside of :func:`debug_mode`: 1 switches all of them on."""


@dataclass(frozen=True)
class Mode:
    """The checks that are switched on.

    Attributes:
        outputs: Find elements of outputs that the kernel does not write, or reads before it writes them.
        inputs: Find inputs that the kernel changes.
        reference: The backend that results are compared with; None to compare with nothing.
        nan: Find NaN in results if no input has one.
        rtol: The relative tolerance of the comparison; None for the default, see :mod:`bridge.debug.agreement`.
        bounds: Compile Numba kernels with checks of their indices.
        caller: The operator and backend that call a kernel, for reports; empty for a kernel that is called alone.
    """

    outputs: bool = True
    inputs: bool = True
    reference: str | None = REFERENCE_BACKEND
    nan: bool = True
    rtol: float | None = None
    bounds: bool = True
    caller: str = ""

    def __bool__(self) -> bool:
        return bool(self.outputs or self.inputs or self.reference or self.nan or self.bounds)

    def inside(self, caller: str) -> Mode:
        """The mode of the kernels that an operator calls. The operator itself checks its results."""
        return replace(self, reference=None, nan=False, caller=caller) if self else self


OFF = Mode(outputs=False, inputs=False, reference=None, nan=False, bounds=False)

using = jax.make_user_context(None)
"""``with using(mode)`` puts a mode in force in this thread; None where the environment variable counts.

The mode is part of the key by which JAX finds what it has traced and compiled, so no mode gets the program of another.
"""


@contextlib.contextmanager
def debug_mode(
    *,
    outputs: bool = True,
    inputs: bool = True,
    reference: bool | str = True,
    nan: bool = True,
    rtol: float | None = None,
    bounds: bool = True,
) -> Iterator[None]:
    """Checks the operators and kernels that are called in this context, at every execution.

    A kernel is checked where an operator runs it. It is also checked where it is called without an operator, through
    :func:`bridge.numba_kernel`, :func:`bridge.numba_cuda_kernel`, :func:`bridge.numba_cuda_callable`,
    :func:`bridge.cuda_raw_kernel` or :func:`bridge.jax_kernel`; then there is no reference to compare it with.

    A finding raises JAX's error for a failed callback where the program waits for the result. This is a
    ``jax.errors.JaxRuntimeError``, or a ``ValueError`` if the program ran well before. Its text ends with the text of a
    :class:`bridge.DebugError`: operator, backend, platform, types of the arguments, and for each finding the first
    wrong element and the number of wrong elements.

    A ``jax.jit`` function that is called in this context is compiled for it, also if it was called before; outside it
    runs without checks again. What ``lower().compile()`` returned keeps the checks that it has, or has none. Rules run
    in the mode that is in force when JAX calls them. Kernels run twice and inputs are copied, so do not measure time or
    memory here. A program with checks cannot be exported. On a mesh with Auto axes, calls are not split: each device
    runs the whole kernel, and a :class:`bridge.GatherWarning` says so.

    A program for several devices cannot fail on one of them: XLA aborts a process in which the other devices wait for
    it. There, findings are logged at once. They are raised as a :class:`bridge.DebugError` when this context is left or
    the next operator or kernel is traced, so wait for the results before.

    Contexts do not add up: the innermost one counts. Each thread has its own. Outside of all contexts, the environment
    variable ``KERNEL_BRIDGE_DEBUG`` counts when JAX traces a call: 1 switches every check on.

    Args:
        outputs: Run each kernel of the bridge twice, on outputs that are filled with different patterns. Find elements
            that still hold them, and elements that differ between the runs (integers and booleans at all, other
            numbers by the rule of ``reference``): the kernel reads what it has not written, or is not deterministic.
            Kernels with side effects run once and are not checked.
        inputs: Give the kernel copies of the arguments, and find elements that it changes.
        reference: Compare the results with the results of the backend ``"jnp"``, or of the named one, if the operator
            has it on the platform. The rule is the same as for :meth:`bridge.XLACustomKernel.tune`: integers and
            booleans are equal, NaN and infinities are in the same places, and other numbers differ by at most ``rtol``
            times the larger one of the expected magnitude and the upper quartile of all expected magnitudes.
            :mod:`bridge.debug.agreement` has the whole rule.
        nan: Find NaN in results if no argument has one.
        rtol: The relative tolerance. By default, it follows from the dtype and the sizes of the arguments: 7.6e-5 for
            float32 and 100 000 elements, see :mod:`bridge.debug.agreement`.
        bounds: Compile the Numba kernels for the CPU with ``boundscheck=True``: an index that is out of bounds is an
            ``IndexError`` that names the kernel. Helpers that the kernel calls are compiled as they are declared.

    Raises:
        SignatureError: An argument is none of these.
        DebugError: A program for several devices has found something. Raised when the context is left.
    """
    if not isinstance(reference, bool | str):
        raise SignatureError(f"debug_mode got reference={reference!r}, expected True, False or the name of a backend.")
    checks = dict[str, Any](outputs=outputs, inputs=inputs, nan=nan, bounds=bounds)
    for name, value in checks.items():
        if not isinstance(value, bool):
            raise SignatureError(f"debug_mode got {name}={value!r}, expected True or False.")
    check_rtol(rtol, "debug_mode")
    backend = REFERENCE_BACKEND if reference is True else reference or None
    with using(Mode(**checks, reference=backend, rtol=rtol)):
        yield
    raise_kept()


def current_mode() -> Mode:
    """The mode in force here.

    Raises:
        SignatureError: The environment variable is malformed.
    """
    mode: Mode | None = using.value
    if mode is not None:
        return mode
    text = os.environ.get(VARIABLE, "").strip()
    if text not in ("", "0", "1"):
        raise SignatureError(f"{VARIABLE} is {text!r}, expected 1 or 0. Use bridge.debug_mode to choose some checks.")
    return Mode() if text == "1" else OFF
