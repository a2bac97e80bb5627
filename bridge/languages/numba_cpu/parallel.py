"""Reports exceptions of parallel Numba kernels, and lets one thread at a time enter them where that is necessary.

Numba drops an exception that is raised inside a parallel loop: the worker that raised it stops, and the function
returns as if it had finished. Kernels that are compiled here count such exceptions, so that the call can fail.

Importing this module also limits how long GNU's OpenMP spins, see :data:`SPINS`.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
from typing import Any

import numba
from numba.core.callconv import CPUCallConv
from numba.core.compiler import CompilerBase
from numba.core.cpu import CPUContext

from bridge.ffi.native.exception_text import describe
from bridge.ffi.plans.host import Mutex
from bridge.languages.numba_cpu.raised import emit_report

SPINS = 3000
"""The value of GOMP_SPINCOUNT, unless the user has set it or OMP_WAIT_POLICY."""

# Numba may run parallel loops on GNU's OpenMP. Its threads spin while they wait, by default for milliseconds. Each XLA
# thread that runs a parallel kernel gets its own set of these threads. On few cores the spinning threads then keep the
# working ones from running: a call takes 8 ms instead of 0.1. Without spinning, waking a thread costs 0.1 ms a call. A
# short spin nearly always avoids both. The first parallel kernel of the process loads OpenMP, which then reads the
# variable. A kernel with explicit signatures loads OpenMP already when it is defined, so the variable is set at import.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", str(SPINS))

_TEXT_BYTES = 4096


class Failures:
    """Exceptions raised in the parallel loops of one kernel: a count and the latest description, in native memory."""

    def __init__(self, name: str):
        self.name = name
        self.key = f"{name}#{next(_serials)}"
        self._count = ctypes.c_int64(0)
        self._text = ctypes.create_string_buffer(_TEXT_BYTES)
        _by_key[self.key] = self

    @property
    def count_address(self) -> int:
        """Address of the count, which grows if a parallel loop of the kernel raises."""
        return ctypes.addressof(self._count)

    @property
    def text_address(self) -> int:
        """Address of the latest description, a C string."""
        return ctypes.addressof(self._text)

    def add(self, text: str) -> None:
        """Records one exception; the caller holds the GIL."""
        encoded = text.encode(errors="replace")[: _TEXT_BYTES - 1]
        self._text.raw = encoded.ljust(_TEXT_BYTES, b"\0")
        self._count.value += 1


_serials = itertools.count()
_by_key: dict[str, Failures] = {}


def record_failure(key: str, *exception: Any) -> int:
    """Called by native code, on the worker thread whose iteration raised."""
    failures = _by_key[key]
    failures.add(describe(failures.name, *exception))
    return 0


class _ReportingCallConv(CPUCallConv):
    def raise_error(self, builder: Any, pyapi: Any, status: Any) -> None:
        super().raise_error(builder, pyapi, status)
        emit_report(self.context, builder, pyapi, record_failure, self.context.failures.key)


class _ReportingContext(CPUContext):
    failures: Failures

    @property
    def call_conv(self) -> CPUCallConv:
        return _ReportingCallConv(self)


def reporting_compiler(pipeline: type[CompilerBase], failures: Failures) -> type[CompilerBase]:
    """A compiler like ``pipeline`` whose parallel loops report exceptions to ``failures``."""

    class ReportingCompiler(pipeline):
        def __init__(self, typingctx, targetctx, *args, **kwargs):
            super().__init__(typingctx, targetctx, *args, **kwargs)
            # The target context emits the code that a parallel loop runs when its body has raised.
            context = self.state.targetctx.subtarget()
            context.__class__ = _ReportingContext
            context.failures = failures
            self.state.targetctx = context

    return ReportingCompiler


def entry_mutex() -> Mutex | None:
    """The mutex that parallel kernels hold while they run, if the threading layer in use requires one.

    Numba's workqueue layer aborts the process when a second thread enters it.
    """
    try:
        layer = numba.threading_layer()
    except ValueError:  # no kernel has a parallel loop so far
        return None
    return _workqueue_mutex() if layer == "workqueue" else None


@functools.cache
def _workqueue_mutex() -> Mutex:
    return Mutex.new()
