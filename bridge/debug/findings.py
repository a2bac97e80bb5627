"""Collects the findings of checks on the device, and reports them on the host.

Each finding is reduced to a few numbers on the device. Only these reach the host, where a callback of JAX makes the
report. An error in it would begin with a traceback, so a native call fails with the report.
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

from bridge.errors import DebugError
from bridge.ffi.cuda import driver
from bridge.ffi.native.addresses import c_string
from bridge.ffi.native.call_frame import STREAM_WORD, Arrays
from bridge.ffi.native.exception_text import create_error
from bridge.ffi.order import after
from bridge.ffi.plans.host import FUNCTION, HostPlan
from bridge.ffi.primitive import align_varying, result_aval
from bridge.ffi.target import CPU, CUDA_HOST, key_of

_log = logging.getLogger(__name__)


def type_text(array: Any) -> str:
    """Dtype and shape of an array, such as ``float32[2, 3]``."""
    return f"{array.dtype}{list(array.shape)}"


CHUNK = 2**30
"""The most elements among which one index finds the first wrong one: JAX's indices have 32 bits."""


@dataclass
class Findings:
    """The findings about one call, as arrays that are still being computed.

    Attributes:
        place: The call, for the report: the operator or kernel, the platform, and the types of the arguments.
        platform: The platform that the call is lowered for.
        checks: The text and the shape of each check, and how many chunks and values it has.
        numbers: For each chunk of each check, how many elements are wrong, the first of them, and its values.
    """

    place: str
    platform: str
    checks: list[tuple[Callable[..., str], tuple[int, ...], int, int]] = field(default_factory=list)
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
        flat = [array.reshape(-1) for array in (wrong, *values)]
        starts = range(0, wrong.size, CHUNK)
        for start in starts:
            marks, *parts = [jax.lax.slice_in_dim(each, start, min(start + CHUNK, wrong.size)) for each in flat]
            first = jnp.argmax(marks)
            self.numbers += [jnp.sum(marks, dtype=jnp.uint32), first, *(part[first] for part in parts)]
        self.checks.append((text, wrong.shape, len(starts), len(values)))

    def reported(self, results: list[Any]) -> list[Any]:
        """The results, which wait until the findings are reported."""
        if not self.checks:
            return results
        report = _Report(self.place, self.platform, tuple(self.checks))
        done = report_p.bind(*align_varying(tuple(self.numbers)), report=report)
        return after(results, [done], self.platform)


@dataclass(frozen=True)
class _Report:
    """Turns the numbers of :class:`Findings` into text."""

    place: str
    platform: str
    checks: tuple[tuple[Callable[..., str], tuple[int, ...], int, int], ...]

    def make(self, keeps: bool, *numbers: Any) -> np.ndarray[Any, Any]:
        """The address of the findings as a C string, in two halves; 0 if there are none, or if they are kept."""
        given = iter(map(np.asarray, numbers))
        lines = []
        for text, shape, chunks, values in self.checks:
            found = [[next(given) for _ in range(2 + values)] for _ in range(chunks)]
            wrong = sum(int(chunk[0]) for chunk in found)
            if wrong:
                at = next(index for index, chunk in enumerate(found) if chunk[0])
                place = np.unravel_index(at * CHUNK + int(found[at][1]), shape)
                where = f"the first at {[int(index) for index in place]}"
                lines.append(text(f"{wrong} of {math.prod(shape)} elements", where, *found[at][2:]))
        report = f"{self.place}: {'; '.join(lines)}."
        if lines and keeps:
            kept.add(report)
        address = c_string(f"DebugError: {report}") if lines and not keeps else 0
        return np.array([address], np.int64).view(_ADDRESS.dtype)


class _Kept:
    """Keeps the findings of programs that could not raise them, until they can be raised."""

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
        """Forgets the findings and raises them as one DebugError, if there are any."""
        with self._lock:
            texts, self._texts = list(self._texts), {}
        if texts:
            raise DebugError("\n".join(texts))


kept = _Kept()


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
def _done(*avals: Any, report: _Report) -> Any:
    return result_aval(avals, _ADDRESS.shape, _ADDRESS.dtype)


def _lower_report(ctx: mlir.LoweringRuleContext, *operands: Any, report: _Report) -> Any:
    # If one of several devices fails, the others wait for it. After some time, XLA aborts the process.
    make = functools.partial(report.make, _device_count(ctx.module_context.axis_context) > 1)
    on_cuda, name = report.platform == "cuda", "report"
    target, plan = CUDA_HOST if on_cuda else CPU, HostPlan(_fail, context=int(on_cuda))
    target.publish(name, lambda: (plan.keep(Arrays(name, [(1, 4)], [(1, 4)])), None))

    def run(*numbers: Any) -> Any:
        address = jax.pure_callback(make, _ADDRESS, *numbers)
        return jax.ffi.ffi_call(target.name, _ADDRESS)(address, key=np.int64(key_of(name)), kernel=name)

    return mlir.lower_fun(run, multiple_results=False)(ctx, *operands)


mlir.register_lowering(report_p, _lower_report)


def _device_count(context: Any) -> int:
    """The number of devices of the program that is being lowered; contexts of ``shard_map`` have a mesh instead."""
    mesh = getattr(context, "mesh", None)
    return int(getattr(context, "num_devices", 1) if mesh is None else mesh.size)
