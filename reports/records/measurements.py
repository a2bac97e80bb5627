"""Holds the measurements of one cell: accuracy, times, and the time before the steady state."""

import functools
import math

import msgspec

from reports.errors import RecordError
from reports.records.part import Amount, Count, Part, Whole, number
from reports.records.quantiles import grouped_median, quantile

_NO_SAMPLES = (
    "timing: no samples. A cell that could not be timed has timing=None and a status other than PASSED with its reason."
)


class Accuracy(Part, frozen=True, kw_only=True):
    """The largest errors of one result, compared with the truth in float64. NaN and infinities are recorded too.

    Attributes:
        max_ulp: Largest distance from the truth, in units in the last place.
        budget_used: Largest share of the error budget that an element used; 1.0 is the limit.
        worst_index: Index of that element.
        got: Its value. A complex number, or an integer beyond 2**53, is written as text.
        truth: Its true value, as text in the same cases.
        reference_budget_used: That of `jnp` on the same inputs, which only older versions recorded: it has a cell.
    """

    max_ulp: float | None = None
    budget_used: float | None = None
    worst_index: list[Whole] | None = None
    got: float | str | None = None
    truth: float | str | None = None
    reference_budget_used: float | None = None

    def __post_init__(self) -> None:
        if isinstance(self.got, str) or isinstance(self.truth, str):
            msgspec.structs.force_setattr(self, "got", number(self.got))
            msgspec.structs.force_setattr(self, "truth", number(self.truth))


class ProcessTimes(Part, frozen=True, kw_only=True):
    """The times of one cell in one process, nanoseconds per call, in the order taken.

    Attributes:
        samples_ns: The time of a call, by the method of the cell. With two-point timing, the difference of a long and
            a short loop, divided by the difference of their numbers of calls; single differences may be below zero.
        loops: Calls in the shorter loop of a round.
        program_ns: With two-point timing, the time of the whole program with the shorter loop, per round.
        kernels_ns: On a GPU, the sum of the times of the kernels of a call, without copies, sets and gaps.
        alone_ns: A single call from Python; only older runs measured it.
        alone_warm_ns: The same for a call that writes to the memory of earlier results.
        discarded: Number of samples that do not count, because the device was throttled.
        clock_mhz: Median clock of the device during the samples.
        block: The number of the pair of processes of base and head that were timed together. The process of the other
            revision has the same number. None in a run of one revision.

    Raises:
        RecordError: There is no sample, a number is not finite, the median is not above zero, or
            `loops` is below 1.
    """

    samples_ns: tuple[float, ...]
    loops: Whole = 1
    program_ns: tuple[float, ...] = ()
    kernels_ns: tuple[float, ...] = ()
    alone_ns: tuple[float, ...] = ()
    alone_warm_ns: tuple[float, ...] = ()
    discarded: Count = 0
    clock_mhz: Amount | None = None
    block: Count | None = None

    def __post_init__(self) -> None:
        if not self.samples_ns:
            raise RecordError(_NO_SAMPLES)
        samples = [*self.samples_ns, *self.program_ns, *self.kernels_ns, *self.alone_ns, *self.alone_warm_ns]
        if min(samples) > 0 and sum(samples) < math.inf and self.loops > 0:
            return  # the usual case
        for name in ("samples_ns", "program_ns", "kernels_ns", "alone_ns", "alone_warm_ns"):
            values = getattr(self, name)
            # A difference of two times may be below zero, a time may not.
            least = -math.inf if name == "samples_ns" and self.program_ns else 0.0
            wrong = [value for value in values if not (math.isfinite(value) and value > least)]
            if wrong:
                raise RecordError(
                    f"timing: {name} has a sample of {wrong[0]!r} ns ({len(wrong)} of {len(values)} such samples);"
                    " expected finite times above zero. Raise `loops` where the clock is too coarse for one call."
                )
        if self.median_ns <= 0:
            raise RecordError(
                f"timing: the median is {self.median_ns!r} ns, expected a time above zero. Raise `loops`: the noise is"
                " larger than the time of the calls."
            )
        if self.loops < 1:
            raise RecordError(f"timing: loops={self.loops}; expected the number of calls in a sample, at least 1.")

    @property
    def median_ns(self) -> float:
        """Median of the samples, nanoseconds per call. Samples of a GPU's coarse clock are interpolated."""
        by_gpu = self.kernels_ns and min(self.samples_ns) >= GPU_TICK_NS
        return grouped_median(self.samples_ns, GPU_TICK_NS) if by_gpu else quantile(self.samples_ns, 0.5)

    @property
    def fixed_ns(self) -> float | None:
        """Time of a program beyond its calls, with two-point timing: the line through both points at zero calls."""
        return quantile(self.program_ns, 0.5) - self.loops * self.median_ns if self.program_ns else None


class Timing(Part, frozen=True, kw_only=True, dict=True):
    """The times of one cell: one entry for each process that measured it.

    The process is the unit of replication: samples of one process share its addresses and the state of its caches.

    Attributes:
        method: How time was taken: `two_points`, `cupti`, `wall`, and `rounds` in the dispatch benchmark. Times of two
            methods are never compared.
        cache: State of the caches before a call, such as `hot` or `cold`. Times of two states are never compared.
        processes: The times in each process.
        stop: Why sampling ended.

    Raises:
        RecordError: There is no process.
    """

    method: str
    cache: str
    processes: list[ProcessTimes]
    stop: str

    def __post_init__(self) -> None:
        if not self.processes:
            raise RecordError(_NO_SAMPLES)

    @property
    def samples_ns(self) -> list[float]:
        """The samples of all processes."""
        return [sample for process in self.processes for sample in process.samples_ns]

    @functools.cached_property
    def medians_ns(self) -> list[float]:
        """The median of each process, nanoseconds per call."""
        return [process.median_ns for process in self.processes]

    @functools.cached_property
    def median_ns(self) -> float:
        """Median of the medians of the processes, nanoseconds per call."""
        return quantile(self.medians_ns, 0.5)

    @property
    def low_ns(self) -> float:
        """Least median of a process; with a single process, the 20th percentile of its samples."""
        return min(self.medians_ns) if len(self.processes) > 1 else quantile(self.samples_ns, 0.2)

    @property
    def high_ns(self) -> float:
        """Greatest median of a process; with a single process, the 80th percentile of its samples."""
        return max(self.medians_ns) if len(self.processes) > 1 else quantile(self.samples_ns, 0.8)

    @property
    def kernels_ns(self) -> float | None:
        """Median of the medians, over the processes, of the kernels of a call on a GPU."""
        return _median_of([process.kernels_ns for process in self.processes])

    @property
    def fixed_ns(self) -> float | None:
        """Median over the processes of the time of a program beyond its calls; None without two-point timing."""
        times = [process.fixed_ns for process in self.processes if process.fixed_ns is not None]
        return quantile(times, 0.5) if times else None

    @property
    def loops(self) -> int:
        """Calls in the shorter loop of a round; the least of all processes."""
        return min(process.loops for process in self.processes)

    @property
    def discarded(self) -> int:
        """Samples that were thrown away because the device was throttled."""
        return sum(process.discarded for process in self.processes)

    @functools.cached_property
    def is_steady(self) -> bool:
        """Whether the calls, and not the program around them, take most of the time. If not, there is no ratio.

        With two-point timing the time beyond the calls must be at most half of the longer loop.
        """
        return all(
            not process.program_ns or quantile(process.program_ns, 0.5) <= (LONGER + 1) * process.loops * median
            for process, median in zip(self.processes, self.medians_ns, strict=True)
        )


GPU_TICK_NS = 32.0
"""The step of the clock of NVIDIA GPUs that CUPTI reads, in nanoseconds, as measured on an H200."""

LONGER = 4
"""Calls of the longer loop of two-point timing, divided by those of the shorter one."""


def _median_of(samples: list[tuple[float, ...]]) -> float | None:
    medians = [quantile(each, 0.5) for each in samples if each]
    return quantile(medians, 0.5) if medians else None


class Stages(Part, frozen=True, kw_only=True):
    """Milliseconds that a cell spent before its steady state. A stage that was not timed alone is None.

    Attributes:
        trace_ms: Tracing the function; the compiler of a kernel may run then.
        lower_ms: Lowering it to the input of XLA.
        compile_ms: Compiling it by XLA.
        first_call_ms: The first call of the compiled function.
    """

    trace_ms: Amount | None = None
    lower_ms: Amount | None = None
    compile_ms: Amount | None = None
    first_call_ms: Amount | None = None

    @property
    def until_compiled_ms(self) -> float | None:
        """The stages before the first call together; JAX traces a kernel by compiling it. None if one is unknown."""
        stages = (self.trace_ms, self.lower_ms, self.compile_ms)
        return None if None in stages else math.fsum(ms for ms in stages if ms is not None)


class Resources(Part, frozen=True, kw_only=True):
    """The memory of one call. A value that was not measured is None.

    Attributes:
        host_bytes: Growth of the process's largest resident memory by a call, with its outputs.
        device_bytes: Memory of a GPU that a call holds at its peak, without its inputs, with its outputs.
    """

    host_bytes: Count | None = None
    device_bytes: Count | None = None
