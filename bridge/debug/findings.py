"""Collects the findings of checks on the device, and reports them on the host.

Each finding is reduced to a few numbers on the device. Only these reach the host, where a callback raises the report.
"""

from __future__ import annotations

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
from bridge.ffi.avals import align_varying, result_aval
from bridge.ffi.order import after

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Place:
    """The call that a report is about.

    Attributes:
        name: The operator, or the kernel if it is called without one.
        backend: The backend of the operator; None for a kernel that is called without one.
        platform: The platform it runs on.
        arguments: Types of the arguments, with batch dimensions.
    """

    name: str
    backend: str | None
    platform: str
    arguments: str

    @classmethod
    def of(cls, name: str, backend: str | None, platform: str, args: Sequence[Any]) -> Place:
        """The place of a call with these arguments."""
        return cls(name, backend, platform, ", ".join(map(type_text, args)))

    def __str__(self) -> str:
        who = self.name if self.backend is None else f"{self.name}, backend {self.backend}"
        return f"{who} on {self.platform}, called with {self.arguments or 'nothing'}"


def type_text(array: Any) -> str:
    """Dtype and shape of an array, such as ``float32[2, 3]``."""
    return f"{array.dtype}{list(array.shape)}"


@dataclass
class Findings:
    """The findings at one place, as arrays that are still being computed."""

    place: Place
    texts: list[Callable[..., str]] = field(default_factory=list)
    shapes: list[tuple[int, ...]] = field(default_factory=list)
    numbers: list[list[Any]] = field(default_factory=list)

    def add(self, wrong: Any, text: Callable[..., str], *values: Any, about: Sequence[Any] = ()) -> None:
        """Adds the result of one check.

        Args:
            wrong: True for each wrong element.
            text: Makes the finding's text. Its arguments are "3 of 10 elements", "the first at [2]", the first wrong
                element of each of ``values``, and ``about``.
            *values: Arrays of the shape of ``wrong``.
            about: Further numbers.
        """
        flat = wrong.reshape(-1)
        first = jnp.argmax(flat)
        self.texts.append(text)
        self.shapes.append(wrong.shape)
        self.numbers.append([jnp.sum(flat, dtype=jnp.uint32), first, *(v.reshape(-1)[first] for v in values), *about])

    def reported(self, results: list[Any]) -> list[Any]:
        """The results, which wait until the findings are reported."""
        if not self.texts:
            return results
        report = _Report(self.place, tuple(self.texts), tuple(self.shapes), tuple(map(len, self.numbers)))
        flat = tuple(number for numbers in self.numbers for number in numbers)
        done = report_p.bind(*align_varying(flat), report=report)
        return after(results, [done], self.place.platform)


@dataclass(frozen=True)
class _Report:
    """Turns the numbers of findings into text. Has the attributes of :class:`Findings`, but only counts its numbers."""

    place: Place
    texts: tuple[Callable[..., str], ...]
    shapes: tuple[tuple[int, ...], ...]
    counts: tuple[int, ...]

    def describe(self, numbers: Sequence[Any]) -> str | None:
        """The findings in words; None if there are none."""
        given = iter(map(np.asarray, numbers))
        lines = []
        for text, shape, count in zip(self.texts, self.shapes, self.counts, strict=True):
            wrong, first, *values = [next(given) for _ in range(count)]
            if wrong:
                index = [int(i) for i in np.unravel_index(int(first), shape)]
                lines.append(text(f"{wrong} of {math.prod(shape)} elements", f"the first at {index}", *values))
        return f"{self.place}: {'; '.join(lines)}." if lines else None

    def raise_found(self, *numbers: Any) -> np.ndarray[Any, Any]:
        found = self.describe(numbers)
        if found:
            raise DebugError(found)
        return _DONE

    def keep_found(self, *numbers: Any) -> np.ndarray[Any, Any]:
        found = self.describe(numbers)
        if found:
            kept.add(found)
        return _DONE


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

_DONE = np.zeros((), np.uint8)

report_p = Primitive("report")
"""Reports findings on the host. Its result is available once they are reported."""


@report_p.def_abstract_eval
def _done(*avals: Any, report: _Report) -> Any:
    return result_aval(avals, _DONE.shape, _DONE.dtype)


def _lower_report(ctx: mlir.LoweringRuleContext, *operands: Any, report: _Report) -> Any:
    # If one of several devices fails, the others wait for it. After some time, XLA aborts the process.
    function = report.keep_found if _device_count(ctx.module_context.axis_context) > 1 else report.raise_found

    def run(*numbers: Any) -> Any:
        return jax.pure_callback(function, jax.ShapeDtypeStruct(_DONE.shape, _DONE.dtype), *numbers)

    return mlir.lower_fun(run, multiple_results=False)(ctx, *operands)


mlir.register_lowering(report_p, _lower_report)


def _device_count(context: Any) -> int:
    """The number of devices of the program that is being lowered; contexts of ``shard_map`` have a mesh instead."""
    mesh = getattr(context, "mesh", None)
    return int(getattr(context, "num_devices", 1) if mesh is None else mesh.size)
