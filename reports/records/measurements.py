"""Holds the measurements of one cell: accuracy, times, and the time before the steady state."""

import math

import msgspec

from reports.errors import RecordError
from reports.records.part import Part, require_not_negative, require_rates
from reports.records.quantiles import median_relative_error, quantile


class Accuracy(Part, frozen=True, kw_only=True):
    """How right one result is, compared with the truth in float64. NaN and infinities are kept.

    Attributes:
        max_ulp: Largest distance from the truth, in units in the last place.
        budget_used: Largest share of the error budget that an element used; 1.0 is the limit.
        worst_index: Index of that element.
        got: Its value. A complex number, or an integer beyond 2**53, is written as text.
        truth: Its true value, likewise.
        reference_budget_used: The share that XLA's `jnp` result used on the same inputs.
    """

    max_ulp: float | None = None
    budget_used: float | None = None
    worst_index: list[int] | None = None
    got: float | str | None = None
    truth: float | str | None = None
    reference_budget_used: float | None = None


class Timing(Part, frozen=True, kw_only=True):
    """All samples of one cell.

    Attributes:
        method: How time was taken, such as `wall`, `carried_loop`, `cupti`. Times of two methods are never compared.
        cache: State of the caches before a call, such as `hot` or `cold`. Times of two states are never compared.
        samples_ns: Nanoseconds per call, already divided by `loops`, in the order taken.
        loops: Calls within one sample.
        stop: Why sampling ended.

    Raises:
        RecordError: There is no sample, a sample is not a finite time above zero, or `loops` is below 1.
    """

    method: str
    cache: str
    samples_ns: list[float]
    loops: int
    stop: str

    def __post_init__(self) -> None:
        if not self.samples_ns:
            raise RecordError(
                "timing: no samples. A cell that could not be timed has timing=None"
                " and a status other than PASSED with its reason."
            )
        wrong = [sample for sample in self.samples_ns if not (math.isfinite(sample) and sample > 0)]
        if wrong:
            raise RecordError(
                f"timing: sample of {wrong[0]!r} ns ({len(wrong)} of {len(self.samples_ns)} such samples);"
                " expected finite times above zero. Raise `loops` where the clock is too coarse for one call."
            )
        if self.loops < 1:
            raise RecordError(f"timing: loops={self.loops}; expected the number of calls in a sample, at least 1.")

    @property
    def median_ns(self) -> float:
        """Median of the samples, nanoseconds per call."""
        return quantile(self.samples_ns, 0.5)

    @property
    def p20_ns(self) -> float:
        """20th percentile of the samples, nanoseconds per call."""
        return quantile(self.samples_ns, 0.2)

    @property
    def p80_ns(self) -> float:
        """80th percentile of the samples, nanoseconds per call."""
        return quantile(self.samples_ns, 0.8)

    @property
    def relative_error(self) -> float:
        """Relative error of the median, see `quantiles.median_relative_error`."""
        return median_relative_error(self.samples_ns)


class Stages(Part, frozen=True, kw_only=True):
    """Milliseconds that a cell spent before its steady state. A stage that was not timed alone is None."""

    trace_ms: float | None = None
    lower_ms: float | None = None
    compile_ms: float | None = None
    first_call_ms: float | None = None

    def __post_init__(self) -> None:
        require_not_negative("stages", **{name: getattr(self, name) for name in self.__struct_fields__})


class DispatchFacts(Part, frozen=True, kw_only=True):
    """Names and targets of a cell in the dispatch benchmark.

    There, `Cell.backend` names a way to call the kernel and `Cell.mode` names the situation of the call. The samples of
    all ways in one mode were taken in turn: sample `r` of each belongs to round `r`.

    Attributes:
        title: The way to call the kernel, in words.
        mode_title: The situation of the call, in words.
        reference: The way that this one is compared with, round by round.
        limits: Targets: the largest ratio to another way, by its name.
    """

    title: str
    mode_title: str
    reference: str
    limits: dict[str, float] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        require_rates("dispatch: limits", **self.limits)
