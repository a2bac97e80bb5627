"""Which checks operators and kernels get where they are traced: a context, or an environment variable."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import logging
import os
import threading
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import jax

from bridge.errors import DebugError, SignatureError
from bridge.operator.choice.candidates import Choice, candidate
from bridge.operator.choice.registry import Snapshot
from bridge.operator.call.declared import Rule, Rules
from bridge.signature.outputs import check_rtol

if TYPE_CHECKING:
    from bridge.operator.call.operator_call import OperatorCall

VARIABLE = "KERNEL_BRIDGE_DEBUG"
"""Environment variable that switches checks on outside of :func:`debug_mode`: 1, or checks separated by commas."""

_REFERENCE = "jnp"
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Mode:
    """The checks that are switched on.

    Attributes:
        outputs: Whether every element of every output is written.
        inputs: Whether inputs are left alone.
        reference: The backend that results are compared with, if any.
        nan: Which NaNs are wrong: those that appear where no input has one, any, or (None) none.
        rtol: Accepted difference from the reference, as a share of the largest magnitude; None for the dtype's own.
    """

    outputs: bool = True
    inputs: bool = True
    reference: str | None = _REFERENCE
    nan: Literal["new", "any"] | None = "new"
    rtol: float | None = None

    def __bool__(self) -> bool:
        return bool(self.outputs or self.inputs or self.reference or self.nan)


OFF = Mode(outputs=False, inputs=False, reference=None, nan=None)


@dataclass(frozen=True)
class Debug:
    """What the mode means for one call of an operator.

    Attributes:
        mode: The checks.
        reference: The kernel to compare with, on each platform that has it.
    """

    mode: Mode
    reference: Choice


_mode: contextvars.ContextVar[Mode | None] = contextvars.ContextVar("debug_mode", default=None)


class _KernelModes:
    """The mode of kernels that are called without an operator: one for all threads.

    A wrapper of a kernel is a ``jax.jit`` function. Where it has been compiled a call runs no Python, which could ask
    for the mode of its thread; so a change of the mode makes JAX forget what it has compiled of the wrappers, and of
    ``jax.jit`` of them, which JAX knows by the function.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._entered: list[tuple[object, Mode]] = []
        self._wrappers: weakref.WeakSet[Any] = weakref.WeakSet()

    def add_wrapper(self, wrapper: Any) -> None:
        """Has a change of the mode reach a function that calls a kernel."""
        with self._lock:
            self._wrappers.add(wrapper)

    def current(self) -> Mode:
        """The mode that was entered last and has not been left, or that of the environment variable."""
        with self._lock:
            return self._entered[-1][1] if self._entered else _parsed(os.environ.get(VARIABLE, ""))

    @contextlib.contextmanager
    def entered(self, mode: Mode) -> Iterator[None]:
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
                        if hasattr(compiled, "clear_cache"):  # that of Warp is a plain function
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
    """Operators and kernels that are traced in this context are checked at every execution.

    A kernel is checked where an operator runs it, and where it is called without one, as :func:`bridge.numba_kernel`,
    :func:`bridge.numba_cuda_kernel`, :func:`bridge.numba_cuda_callable`, :func:`bridge.cuda_raw_kernel` and
    :func:`bridge.jax_kernel` wrap it; then there is no reference to compare it with.

    What is wrong raises JAX's error for a failed callback where the result is waited for: a
    ``jax.errors.JaxRuntimeError``, or a ``ValueError`` if the program ran well before. Its text ends with that of a
    :class:`bridge.DebugError`: operator, backend, platform, argument types, and for each finding the first element and
    how many there are. A program that was compiled in this context keeps its checks, one compiled outside gets none.
    Kernels run twice and inputs are copied, so time and memory say nothing; a program with checks cannot be exported,
    and runs what :meth:`~bridge.XLACustomKernel.def_partitioning` would split as a whole on each device.

    A program for several devices cannot fail on one of them, because XLA aborts a process in which the others wait for
    it. There, findings are logged at once, and raised as a :class:`bridge.DebugError` when this context is left or the
    next operator or kernel is traced; wait for the results before.

    Contexts do not add up: the innermost counts. Each thread has its own for operators; kernels that are called without
    one are also checked where another thread traces them meanwhile. Outside of any context, the environment variable
    ``KERNEL_BRIDGE_DEBUG`` counts: 1 for every check, or some of ``outputs``, ``inputs``, ``reference``, ``nan``,
    ``reference=BACKEND``, ``nan=any`` and ``rtol=NUMBER``, separated by commas.

    Args:
        outputs: Run each kernel of the bridge twice, on outputs filled with different patterns, and find elements that
            still hold them. Outputs that nothing uses are not looked at, nor kernels with side effects.
        inputs: Give the kernel copies of the arguments, and find elements that it changed.
        reference: Compare the results with those of the backend ``"jnp"``, or of a named one, if the operator has it
            on the platform. Integers and booleans are equal; other numbers differ by at most ``rtol``, and are infinite
            or NaN in the same places.
        nan: Find NaNs in results if no argument has one; ``"any"``: in any case.
        rtol: Largest accepted difference from the reference, divided by the largest magnitude in that result of the
            reference. By default two thirds of the dtype's digits: ``eps ** (2 / 3)``, 2.4e-5 for float32.

    Raises:
        SignatureError: An argument is none of these.
        DebugError: On leaving: a program for several devices has found something.
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
        reference=_REFERENCE if reference is True else reference or None,
        nan="any" if nan == "any" else "new" if nan else None,
        rtol=rtol,
    )
    with _using(mode), kernel_modes.entered(mode):
        yield
    kept.raise_all()


class _Kept:
    """Findings of programs that could not raise them, until the next chance to do so."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._texts: dict[str, None] = {}

    def add(self, text: str) -> None:
        with self._lock:
            new = text not in self._texts
            self._texts[text] = None
        if new:
            _log.error(text)

    def raise_all(self) -> None:
        """Forgets the findings and raises them as one error, if there are any."""
        with self._lock:
            texts, self._texts = list(self._texts), {}
        if texts:
            raise DebugError("\n".join(texts))


kept = _Kept()


@contextlib.contextmanager
def _using(mode: Mode) -> Iterator[None]:
    token = _mode.set(mode)
    try:
        yield
    finally:
        _mode.reset(token)


def current_mode() -> Mode:
    """The mode in force here.

    Raises:
        ValueError: The environment variable is malformed.
    """
    mode = _mode.get()
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
            chosen[name] = value or _REFERENCE
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


def in_current_mode(call: OperatorCall, snapshot: Snapshot) -> OperatorCall:
    """The call with the checks of the mode in force here; the call itself where none is.

    Args:
        call: What was asked for.
        snapshot: What its operator has registered.
    """
    mode = current_mode()
    if not mode:
        return call
    kept.raise_all()
    found = (candidate(snapshot, platform, mode.reference) for platform in sorted(snapshot.kernels) if mode.reference)
    reference = tuple(each for each in found if each is not None)
    return replace(call, debug=Debug(mode, reference), rules=_in_mode(call.rules, mode))


@dataclass(frozen=True)
class _RuleInMode:
    """A rule that calls operators in the mode of the call it belongs to: JAX may run it after the context has ended."""

    rule: Rule
    mode: Mode

    @property
    def __wrapped__(self) -> Rule:
        return self.rule

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        with _using(self.mode):
            return self.rule(*args, **keywords)


def _in_mode(rules: Rules, mode: Mode) -> Rules:
    def wrapped(rule: Rule) -> Rule:
        return _RuleInMode(rule, mode)

    return replace(
        rules,
        jvp=rules.jvp and wrapped(rules.jvp),
        vjp=rules.vjp and (wrapped(rules.vjp[0]), wrapped(rules.vjp[1])),
        transposes=tuple((operand, wrapped(rule)) for operand, rule in rules.transposes),
        batching=rules.batching and wrapped(rules.batching),
    )
