"""Holds what one endurance trial did, and how much memory its process had meanwhile."""

from itertools import pairwise

from reports.errors import RecordError
from reports.records.part import Part, require_not_negative


class MemorySample(Part, frozen=True, kw_only=True):
    """The memory of a process at one moment of a trial.

    Attributes:
        count: How many calls or kernels were done since the warm-up.
        seconds: Seconds since the warm-up.
        resident_bytes: Resident memory of the process.
        device_bytes: Used memory of the GPUs, by all processes; None on a CPU.
        processor_s: Processor time of all threads of the process since the warm-up, in seconds; None in older records.
    """

    count: int
    seconds: float
    resident_bytes: int
    device_bytes: int | None = None
    processor_s: float | None = None

    def __post_init__(self) -> None:
        require_not_negative("endurance", **{name: getattr(self, name) for name in self.__struct_fields__})


class Endurance(Part, frozen=True, kw_only=True):
    """What one endurance trial did.

    Attributes:
        unit: What is counted, such as `call` or `kernel`.
        samples: Memory and time, in the order taken, from the end of the warm-up on.
        allowed_bytes: Growth of memory over the whole trial that is no leak; None if growth is only reported.

    Raises:
        RecordError: There are fewer than two samples, counts do not rise, or seconds or processor time fall.
    """

    unit: str
    samples: list[MemorySample]
    allowed_bytes: int | None = None

    def __post_init__(self) -> None:
        if len(self.samples) < 2:
            raise RecordError(f"endurance: {len(self.samples)} samples; expected at least 2.")
        require_not_negative("endurance", allowed_bytes=self.allowed_bytes)
        for before, later in pairwise(self.samples):
            if later.count <= before.count or later.seconds < before.seconds:
                raise RecordError(
                    f"endurance: a sample of count {later.count} at {later.seconds} s follows one of count"
                    f" {before.count} at {before.seconds} s; expected counts that rise and times that do not fall."
                )
            if (later.processor_s or 0.0) < (before.processor_s or 0.0):
                raise RecordError(
                    f"endurance: processor_s={later.processor_s} of the sample of count {later.count} follows"
                    f" {before.processor_s}; expected times that do not fall."
                )

    @property
    def done(self) -> int:
        """How many were done from the first sample to the last."""
        return self.samples[-1].count - self.samples[0].count

    @property
    def seconds(self) -> float:
        """Seconds from the first sample to the last."""
        return self.samples[-1].seconds - self.samples[0].seconds

    @property
    def first_ns(self) -> float:
        """Nanoseconds for one of them, over the first fifth of the samples."""
        return _cost_ns([(one.count, one.seconds) for one in self._first])

    @property
    def last_ns(self) -> float:
        """Nanoseconds for one of them, over the last fifth of the samples."""
        return _cost_ns([(one.count, one.seconds) for one in self._last])

    @property
    def first_processor_ns(self) -> float | None:
        """Nanoseconds of processor time for one of them, over the first fifth of the samples; None if unknown."""
        return _processor_ns(self._first)

    @property
    def last_processor_ns(self) -> float | None:
        """Nanoseconds of processor time for one of them, over the last fifth of the samples; None if unknown."""
        return _processor_ns(self._last)

    @property
    def _first(self) -> list[MemorySample]:
        return self.samples[: self._fifth + 1]

    @property
    def _last(self) -> list[MemorySample]:
        return self.samples[-self._fifth - 1 :]

    @property
    def _fifth(self) -> int:
        return max(1, (len(self.samples) - 1) // 5)


def _processor_ns(samples: list[MemorySample]) -> float | None:
    known = [(one.count, one.processor_s) for one in samples if one.processor_s is not None]
    return _cost_ns(known) if len(known) == len(samples) else None


def _cost_ns(samples: list[tuple[int, float]]) -> float:
    (first, start), (last, end) = samples[0], samples[-1]
    return 1e9 * (end - start) / (last - first)
