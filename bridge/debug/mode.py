"""Switches on the checks of operators and kernels that are traced in a context, or by an environment variable."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import os
import threading
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import jax

from bridge.agreement import REFERENCE_BACKEND, check_rtol
from bridge.debug.findings import kept
from bridge.errors import SignatureError

VARIABLE = "KERNEL_BRIDGE_DEBUG"
"""The environment variable for checks outside of :func:`debug_mode`: 1, or some checks, separated by commas."""


@dataclass(frozen=True)
class Mode:
    """The checks that are switched on.

    Attributes:
        outputs: Find elements of outputs that the kernel does not write.
        inputs: Find inputs that the kernel changes.
        reference: The backend that results are compared with; None to compare with nothing.
        nan: Find NaN in results: ``"new"`` if no input has one, ``"any"`` always, None never.
        rtol: The relative tolerance of the comparison; None for the default, see :mod:`bridge.agreement`.
    """

    outputs: bool = True
    inputs: bool = True
    reference: str | None = REFERENCE_BACKEND
    nan: Literal["new", "any"] | None = "new"
    rtol: float | None = None

    def __bool__(self) -> bool:
        return bool(self.outputs or self.inputs or self.reference or self.nan)


OFF = Mode(outputs=False, inputs=False, reference=None, nan=None)


operator_mode: contextvars.ContextVar[Mode | None] = contextvars.ContextVar("debug_mode", default=None)
"""The mode of the operators of this thread; None where the environment variable counts."""


class _KernelModes:
    """The mode of kernels that are called without an operator. All threads share it.

    The wrapper of a kernel is a ``jax.jit`` function. A call of a compiled one runs no Python, so it cannot ask for the
    mode of its thread. So a change of the mode makes JAX drop the compiled programs of each wrapper and of
    ``jax.jit(wrapper)``. JAX finds the latter by the wrapped function.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._entered: list[tuple[object, Mode]] = []
        self._wrappers: weakref.WeakSet[Any] = weakref.WeakSet()

    def add_wrapper(self, wrapper: Any) -> None:
        """Adds a function that calls a kernel: a change of the mode makes JAX trace it again."""
        with self._lock:
            self._wrappers.add(wrapper)

    def current(self) -> Mode:
        """The mode that was entered last and not yet left; if there is none, the mode of the environment variable."""
        with self._lock:
            return self._entered[-1][1] if self._entered else _parsed(os.environ.get(VARIABLE, ""))

    @contextlib.contextmanager
    def entered(self, mode: Mode) -> Iterator[None]:
        """Puts a mode in force for all threads."""
        token = (object(), mode)
        with self._changing():
            self._entered.append(token)
        try:
            yield
        finally:
            with self._changing():
                self._entered.remove(token)

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        with self._lock:
            before = self.current()
            yield
            if self.current() != before:
                for wrapper in list(self._wrappers):
                    for compiled in (wrapper, jax.jit(wrapper)):
                        if hasattr(compiled, "clear_cache"):  # jax_kernel returns a plain function
                            compiled.clear_cache()


kernel_modes = _KernelModes()


@contextlib.contextmanager
def debug_mode(
    *,
    outputs: bool = True,
    inputs: bool = True,
    reference: bool | str = True,
    nan: bool | Literal["any"] = True,
    rtol: float | None = None,
) -> Iterator[None]:
    """Checks the operators and kernels that are traced in this context, at every execution.

    A kernel is checked where an operator runs it. It is also checked where it is called without an operator, through
    :func:`bridge.numba_kernel`, :func:`bridge.numba_cuda_kernel`, :func:`bridge.numba_cuda_callable`,
    :func:`bridge.cuda_raw_kernel` or :func:`bridge.jax_kernel`; then there is no reference to compare it with.

    A finding raises JAX's error for a failed callback where the program waits for the result. This is a
    ``jax.errors.JaxRuntimeError``, or a ``ValueError`` if the program ran well before. Its text ends with the text of a
    :class:`bridge.DebugError`: operator, backend, platform, types of the arguments, and for each finding the first
    wrong element and the number of wrong elements.

    A program that was compiled in this context keeps its checks. A program that was compiled outside gets none. Kernels
    run twice and inputs are copied, so do not measure time or memory here. A program with checks cannot be exported.
    On a mesh with Auto axes, calls are not split: each device runs the whole kernel, and nothing warns of that.

    A program for several devices cannot fail on one of them: XLA aborts a process in which the other devices wait for
    it. There, findings are logged at once. They are raised as a :class:`bridge.DebugError` when this context is left or
    the next operator or kernel is traced, so wait for the results before.

    Contexts do not add up: the innermost one counts. Each thread has its own context for operators. Kernels that are
    called without an operator are also checked if another thread traces them meanwhile. Outside of all contexts, the
    environment variable ``KERNEL_BRIDGE_DEBUG`` counts: 1 for every check, or some of ``outputs``, ``inputs``,
    ``reference``, ``nan``, ``reference=BACKEND``, ``nan=any`` and ``rtol=NUMBER``, separated by commas.

    Args:
        outputs: Run each kernel of the bridge twice, on outputs that are filled with different patterns, and find
            elements that still hold them. Outputs that nothing uses and kernels with side effects are not checked.
        inputs: Give the kernel copies of the arguments, and find elements that it changes.
        reference: Compare the results with the results of the backend ``"jnp"``, or of the named one, if the operator
            has it on the platform. The rule is the same as for :meth:`bridge.XLACustomKernel.tune`: integers and
            booleans are equal, NaN and infinities are in the same places, and other numbers differ by at most ``rtol``
            times the larger one of the expected magnitude and the upper quartile of all expected magnitudes.
            :mod:`bridge.agreement` has the whole rule.
        nan: Find NaN in results if no argument has one; ``"any"``: find NaN always.
        rtol: The relative tolerance. By default, it follows from the dtype and the sizes of the arguments: 7.6e-5 for
            float32 and 100 000 elements, see :mod:`bridge.agreement`.

    Raises:
        SignatureError: An argument is none of these.
        DebugError: A program for several devices has found something. Raised when the context is left.
    """
    if not isinstance(reference, bool | str) or nan not in (True, False, "any"):
        raise SignatureError(
            f"debug_mode got reference={reference!r} and nan={nan!r}, expected True, False or the name of a backend, "
            "and True, False or 'any'."
        )
    if not (isinstance(outputs, bool) and isinstance(inputs, bool)):
        raise SignatureError(f"debug_mode got outputs={outputs!r} and inputs={inputs!r}, expected True or False.")
    check_rtol(rtol, "debug_mode")
    mode = Mode(
        outputs=bool(outputs),
        inputs=bool(inputs),
        reference=REFERENCE_BACKEND if reference is True else reference or None,
        nan="any" if nan == "any" else "new" if nan else None,
        rtol=rtol,
    )
    with using(mode), kernel_modes.entered(mode):
        yield
    kept.raise_all()


@contextlib.contextmanager
def using(mode: Mode) -> Iterator[None]:
    """Puts a mode in force for the operators of this thread."""
    token = operator_mode.set(mode)
    try:
        yield
    finally:
        operator_mode.reset(token)


def current_mode() -> Mode:
    """The mode in force for operators here.

    Raises:
        SignatureError: The environment variable is malformed.
    """
    mode = operator_mode.get()
    return _parsed(os.environ.get(VARIABLE, "")) if mode is None else mode


@functools.lru_cache(maxsize=16)
def _parsed(text: str) -> Mode:
    items = [item.strip() for item in text.split(",") if item.strip()]
    if items in ([], ["0"]):
        return OFF
    if items == ["1"]:
        return Mode()
    chosen: dict[str, Any] = {}
    for item in items:
        name, _, value = item.partition("=")
        if name in ("outputs", "inputs") and not value:
            chosen[name] = True
        elif name == "reference":
            chosen[name] = value or REFERENCE_BACKEND
        elif name == "nan" and value in ("", "any"):
            chosen[name] = value or "new"
        elif name == "rtol" and _is_number(value):
            chosen[name] = float(value)
        else:
            raise SignatureError(
                f"{VARIABLE} is {text!r}, in which {item!r} is no check. Set it to 1, or to some of outputs, inputs, "
                "reference, reference=BACKEND, nan, nan=any and rtol=NUMBER, separated by commas."
            )
    return replace(OFF, **chosen)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
