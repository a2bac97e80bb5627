"""Collects the findings of checks on the device, and reports them on the host.

Each finding is reduced to a few numbers on the device. Only these reach the host, where a callback of JAX makes the
report. An error in it would begin with a traceback, so a native call fails with the report. Native calls also hold back
results until the report is made, see :func:`after`.
"""

from __future__ import annotations

import ctypes
import functools
import logging
import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import mlir

from bridge.compat.jax import device_count
from bridge.errors import DebugError
from bridge.ffi.cuda import driver
from bridge.ffi.native.addresses import Arrays, c_string
from bridge.ffi.native.call_frame import STREAM_WORD
from bridge.ffi.native.exception_text import create_error
from bridge.ffi.plans.device import DevicePlan
from bridge.ffi.plans.host import FUNCTION, HostPlan
from bridge.ffi.primitive import align_varying, result_aval
from bridge.ffi.target import CPU, CUDA, CUDA_HOST, Target, key_of

_log = logging.getLogger(__name__)


def type_text(array: Any) -> str:
    """Dtype and shape of an array, such as ``float32[2, 3]``."""
    return f"{array.dtype}{list(array.shape)}"


@dataclass(eq=False)
class Findings:
    """The findings about one call, as arrays that are still being computed.

    Attributes:
        place: The call, for the report: the operator or kernel, the platform, and the types of the arguments.
        platform: The platform that the call is lowered for.
        checks: The text and the shape of each check, and how many values it has.
        numbers: For each check, how many elements are wrong, the first of them, and its values.
    """

    place: str
    platform: str
    checks: list[tuple[Callable[..., str], tuple[int, ...], int]] = field(default_factory=list)
    numbers: list[Any] = field(default_factory=list)

    @classmethod
    def of(cls, who: str, platform: str, args: Sequence[Any]) -> Findings:
        """The findings about a call with these arguments, none yet."""
        types = ", ".join(map(type_text, args)) or "nothing"
        return cls(f"{who} on {platform}, called with {types}", platform)

    def add(self, wrong: Any, text: Callable[..., str], *values: Any) -> None:
        """Adds the result of one check.

        Args:
            wrong: True for each wrong element.
            text: Makes the finding's text. Its arguments are "3 of 10 elements", "the first at [2]", the first wrong
                element of each of ``values``.
            *values: Arrays of the shape of ``wrong``.
        """
        first = jnp.argmax(wrong)
        self.numbers += [jnp.sum(wrong, dtype=jnp.uint32), first, *(each.reshape(-1)[first] for each in values)]
        self.checks.append((text, wrong.shape, len(values)))

    def reported(self, results: list[Any]) -> list[Any]:
        """The results, which wait until the findings are reported."""
        if not self.checks:
            return results
        numbers, self.numbers = align_varying(tuple(self.numbers)), []  # JAX keeps these findings
        return after(results, [report_p.bind(*numbers, report=self)], self.platform)

    def make(self, keeps: bool, *numbers: Any) -> np.ndarray[Any, Any]:
        """The address of the findings as a C string, in two halves; 0 if there are none, or if they are kept."""
        given = iter(map(np.asarray, numbers))
        lines = []
        for text, shape, values in self.checks:
            wrong, first, *found = [next(given) for _ in range(2 + values)]
            if wrong:
                where = f"the first at {[int(index) for index in np.unravel_index(first, shape)]}"
                lines.append(text(f"{wrong} of {math.prod(shape)} elements", where, *found))
        report = f"{self.place}: {'; '.join(lines)}."
        if lines and keeps:
            _keep(report)
        address = c_string(f"DebugError: {report}") if lines and not keeps else 0
        return np.array([address], np.int64).view(_ADDRESS.dtype)


_lock, _kept = threading.Lock(), dict[str, None]()
"""The findings of programs that could not raise them, until they can be raised."""


def _keep(text: str) -> None:
    with _lock:
        new = text not in _kept
        _kept[text] = None
    if new:
        _log.error(text)


def raise_kept() -> None:
    """Forgets the findings that are kept, and raises them as one DebugError, if there are any."""
    with _lock:
        texts = list(_kept)
        _kept.clear()
    if texts:
        raise DebugError("\n".join(texts))


@FUNCTION
def _fail(frame: int, buffers: int, data: int, batch_rank: int, on_cuda: int) -> int:
    """Fails if its operand holds the address of a report."""
    words = (ctypes.c_int64 * (STREAM_WORD + 1)).from_address(data)
    content = driver.read(words[0], 8, words[STREAM_WORD]) if on_cuda else ctypes.string_at(words[0], 8)
    report = int.from_bytes(content, "little")
    return create_error(frame, ctypes.string_at(report).decode()) if report else 0


_ADDRESS = jax.ShapeDtypeStruct((2,), np.uint32)
"""Holds an address: most programs have no integers of 64 bits."""

report_p = Primitive("report")
"""Reports findings on the host. Its result is available once they are reported."""


@report_p.def_abstract_eval
def _done(*avals: Any, report: Findings) -> Any:
    return result_aval(avals, _ADDRESS.shape, _ADDRESS.dtype)


def _lower_report(ctx: mlir.LoweringRuleContext, *operands: Any, report: Findings) -> Any:
    # If one of several devices fails, the others wait for it. After some time, XLA aborts the process.
    make = functools.partial(report.make, device_count(ctx) > 1)
    on_cuda = report.platform == "cuda"
    target, plan = CUDA_HOST if on_cuda else CPU, HostPlan(_fail, context=int(on_cuda))

    def run(*numbers: Any) -> Any:
        return _native(target, plan, "report", [jax.pure_callback(make, _ADDRESS, *numbers)])

    return mlir.lower_fun(run, multiple_results=False)(ctx, *operands)


mlir.register_lowering(report_p, _lower_report)


def after(arrays: Sequence[Any], others: Sequence[Any], platform: str, label: str = "") -> list[Any]:
    """Returns the arrays once the others have been computed, in a way that XLA cannot undo.

    XLA drops optimization barriers before scheduling, and then merges identical calls. But it cannot see into a foreign
    call. The call made here does nothing: its result shares the buffer of its operand. XLA copies the operand first if
    anything else uses it.

    Args:
        arrays: The arrays to return.
        others: The arrays to wait for.
        platform: The platform for which this is being lowered.
        label: XLA never merges calls with different labels, so each of them has its own copy.
    """
    if platform not in ("cpu", "cuda"):
        return list(jax.lax.optimization_barrier((list(arrays), list(others)))[0])
    target, plan = (CPU, HostPlan(_nothing)) if platform == "cpu" else (CUDA, DevicePlan(()))
    awaited = [other for other in others if _is_plain(other)]

    def held(array: Any) -> Any:
        return _native(target, plan, f"identity:{label}", [array, *awaited], input_output_aliases={0: 0})

    return [held(array) if _is_plain(array) and array.size else array for array in arrays]


def _is_plain(array: Any) -> bool:
    """Whether an array holds numbers, not random keys."""
    return not jnp.issubdtype(array.dtype, jax.dtypes.extended)


@FUNCTION
def _nothing(*_: int) -> int:
    return 0


def _native(target: Target, plan: HostPlan | DevicePlan, name: str, arrays: Sequence[Any], **options: Any) -> Any:
    """The result of a call of a plan, which has the type of the first of its arrays."""
    sizes = [(array.ndim, np.dtype(array.dtype).itemsize) for array in arrays]
    description = f"{name} {sizes}"
    target.publish(description, lambda: (plan.keep(Arrays(name, sizes, sizes[:1])), None))
    # On GPUs, XLA fuses slices and updates of larger arrays into a call that no barrier keeps apart.
    first, *others = jax.lax.optimization_barrier(align_varying(tuple(arrays)))
    call = jax.ffi.ffi_call(target.name, jax.ShapeDtypeStruct(first.shape, first.dtype), **options)
    result = call(first, *others, key=np.int64(key_of(description)), kernel=description)
    return jax.lax.optimization_barrier(result)
