"""Defines :class:`EnduranceTrial`, what one process does, and the trials of each kind that a platform has."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from reports import Cell
from reports.records.cell import Parameter

DEFINING = "threads"
"""The kind of trials whose threads also define kernels and programs."""

KINDS = ("calls", "kernels", "thread-calls", DEFINING)
"""The kinds of trials."""

THREADED = ("thread-calls", DEFINING)
"""The kinds that take a time, not a count."""

XLA_THREADS = "xla"
"""The subject of trials whose parallel loops run on XLA's threads, as they do unless Numba has more threads."""

_LAYERS = {
    XLA_THREADS: "16 threads, loops on XLA's threads",
    "workqueue": "16 threads, Numba's own threading layer",
    "omp": "16 threads, OpenMP",
    "tbb": "16 threads, TBB",
}
_ALSO_ON_GPUS = {"omp": "16 threads on the CPU and on the GPUs, OpenMP"}

SUBJECTS: Mapping[tuple[str, str], Mapping[str, str]] = {
    ("calls", "cpu"): {
        "numba": "a Numba kernel",
        "operator": "an operator with a Numba kernel",
        "warp-native": "a Warp kernel",
    },
    ("calls", "cuda"): {
        "numba-cuda": "a Numba-CUDA kernel",
        "cuda-raw": "a kernel in CUDA C++",
        "warp-native": "a Warp kernel",
    },
    ("kernels", "cpu"): {
        "numba": "Numba kernels",
        "numba-alone": "Numba kernels that Numba alone compiles and calls, for comparison",
        "operator": "operators with a Numba kernel each",
        "shapes": "shapes of one Numba kernel",
        "warp": "Warp kernels",
    },
    ("kernels", "cuda"): {
        "numba-cuda": "Numba-CUDA kernels",
        "cuda-raw": "kernels in CUDA C++",
        "warp": "Warp kernels",
    },
    ("thread-calls", "cpu"): _LAYERS,
    ("thread-calls", "cuda"): _ALSO_ON_GPUS,
    (DEFINING, "cpu"): _LAYERS,
    (DEFINING, "cuda"): _ALSO_ON_GPUS,
}
"""What the trials of each kind and platform are about, by the name that ``--backend`` takes, in words."""


class EnduranceTrial(msgspec.Struct, frozen=True):
    """What one process does.

    Attributes:
        kind: One of :data:`KINDS`.
        subject: What it is about, see :data:`SUBJECTS`.
        platform: ``cpu`` or ``cuda``.
        count: How many calls or kernels; 0 for a trial of threads.
        seconds: How long a trial of threads takes; 0 for others.
        limit_s: Seconds after which the process ends and shows its stacks.
    """

    kind: str
    subject: str
    platform: str
    count: int = 0
    seconds: float = 0.0
    limit_s: float = 3600.0

    @property
    def cell(self) -> Cell:
        """Identifies the trial in a record."""
        amount: dict[str, Parameter] = {self.kind: self.count} if self.count else {"seconds": self.seconds}
        return Cell(
            operator=self.kind,
            operator_version=1,
            backend=self.subject,
            platform=self.platform,  # type: ignore[arg-type]
            dtype="float32",
            size=self.count or 1,
            params=amount,
        )


class TrialError(Exception):
    """A trial found a wrong result, or a call that raised."""


class TrialUnavailableError(Exception):
    """A trial cannot be made on this machine. The message is the reason that the page shows."""
