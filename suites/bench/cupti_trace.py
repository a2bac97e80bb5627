"""Records what a CUDA device does, through the activity interface of CUPTI, NVIDIA's profiling library.

It needs the package cupti-python (in the extras ``cuda12`` and ``cuda13``). CUPTI admits one user in a process with
drivers before r610, so nothing is recorded while another profiler is attached.

Kernels inside of CUDA graphs, which XLA calls command buffers, are recorded one by one: that is what CUPTI does unless
``GRAPH_TRACE`` is enabled. Recording puts a time stamp around each kernel, so the gap between two kernels of a call is
a little longer than without it, for every backend.
"""

from __future__ import annotations

import functools
import importlib
import threading
from collections.abc import Callable, Sequence
from typing import Any

from suites.bench.device_activities import KERNEL, Activity

_KINDS = {"CONCURRENT_KERNEL": KERNEL, "MEMCPY": "copy", "MEMCPY2": "copy", "MEMSET": "set"}
"""What each kind of record of CUPTI is: MEMCPY2 copies between two devices."""

_BUFFER_BYTES = 8 << 20
"""Holds about 40,000 records."""

_FLUSH_FORCED = 1


class CuptiTrace:
    """Records activities of all CUDA devices of the process. Get it from :func:`cupti_trace`: CUPTI has one state.

    Args:
        cupti: The module ``cupti.cupti``.

    Raises:
        Exception: CUPTI does not work here, for example without a driver or permission.
    """

    def __init__(self, cupti: Any):
        self._cupti = cupti
        self._lock = threading.Lock()
        self._kinds = {int(getattr(cupti.ActivityKind, name)): kind for name, kind in _KINDS.items()}
        self._seen: list[Activity] = []
        self._failure: Exception | None = None
        cupti.activity_register_callbacks(lambda: (_BUFFER_BYTES, 0), self._keep)

    def collect(self, run: Callable[[], Any]) -> list[Activity]:
        """Returns what the devices did while ``run`` ran, in no particular order.

        Args:
            run: Starts work, and waits until all of it has ended.

        Raises:
            Exception: CUPTI refuses to record, or a record has other fields than expected.
        """
        with self._lock:
            enabled: list[int] = []
            try:
                for kind in self._kinds:
                    self._cupti.activity_enable(kind)
                    enabled.append(kind)
                self._cupti.activity_flush_all(_FLUSH_FORCED)
                self._seen, self._failure = [], None
                run()
                self._cupti.activity_flush_all(_FLUSH_FORCED)
            finally:
                for kind in enabled:
                    self._cupti.activity_disable(kind)
            seen, failure = self._seen, self._failure
            self._seen, self._failure = [], None
        if failure is not None:
            raise failure
        return seen

    def _keep(self, records: Sequence[Any]) -> None:
        """Copies records: their memory belongs to CUPTI, which calls this and would swallow an exception."""
        try:
            for record in records:
                kind = self._kinds.get(int(record.kind))
                if kind is not None:
                    self._seen.append(_activity(kind, record))
        except Exception as error:
            self._failure = error


@functools.cache
def cupti_trace() -> CuptiTrace:
    """Returns the recorder of this process.

    Raises:
        ImportError: The package cupti-python, or CUPTI itself, is not installed.
        Exception: CUPTI does not work here.
    """
    return CuptiTrace(importlib.import_module("cupti.cupti"))


def _activity(kind: str, record: Any) -> Activity:
    if kind == KERNEL:
        name = record.name.decode() if isinstance(record.name, bytes) else str(record.name)
    else:
        direction = f" of kind {record.copy_kind}" if kind == "copy" else ""
        name = f"{kind}{direction}, {record.bytes} bytes"
    return Activity(kind, name, int(record.start), int(record.end), int(record.correlation_id))
