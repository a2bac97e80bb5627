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
    """

    count: int
    seconds: float
    resident_bytes: int
    device_bytes: int | None = None

    def __post_init__(self) -> None:
        require_not_negative("endurance", **{name: getattr(self, name) for name in self.__struct_fields__})


class Endurance(Part, frozen=True, kw_only=True):
    """What one endurance trial did.

    Attributes:
        unit: What is counted, such as `call` or `kernel`.
        samples: Memory and time, in the order taken, from the end of the warm-up on.
        allowed_bytes: Growth of memory over the whole trial that is no leak; None if growth is only reported.

    Raises:
        RecordError: There are fewer than two samples, counts do not rise, or seconds fall.
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
        return _cost_ns(self.samples[: self._fifth + 1])

    @property
    def last_ns(self) -> float:
        """Nanoseconds for one of them, over the last fifth of the samples."""
        return _cost_ns(self.samples[-self._fifth - 1 :])

    @property
    def _fifth(self) -> int:
        return max(1, (len(self.samples) - 1) // 5)


def _cost_ns(samples: list[MemorySample]) -> float:
    first, last = samples[0], samples[-1]
    return 1e9 * (last.seconds - first.seconds) / (last.count - first.count)
