"""Computes how much memory grew in a trial of endurance, for columns, tables and the verdict."""

from typing import Literal

from reports.records.endured import Endurance
from reports.statistics.growth import Growth, growth

Memory = Literal["resident_bytes", "device_bytes"]


def growth_of(endurance: Endurance, memory: Memory) -> Growth | None:
    """Returns the growth for each call or kernel; None if the memory was not sampled."""
    sizes = [getattr(sample, memory) for sample in endurance.samples]
    if None in sizes:
        return None
    return growth([sample.count for sample in endurance.samples], sizes)


def grown_bytes(endurance: Endurance, memory: Memory) -> float | None:
    """Returns the growth without its interval."""
    found = growth_of(endurance, memory)
    return None if found is None else found.slope


def samples_of(endurance: Endurance) -> list[list[float | None]]:
    """Returns count, seconds, resident bytes, bytes of the device and seconds of processor time of each sample."""
    return [
        [one.count, one.seconds, one.resident_bytes, one.device_bytes, one.processor_s] for one in endurance.samples
    ]


def leak(endurance: Endurance) -> str | None:
    """Returns the memory that grew by more than is allowed, in words; None if none did.

    The lower end of the interval of the slope decides. So one step, or the noise of an allocator, is no leak.
    """
    if endurance.allowed_bytes is None:
        return None
    for memory, name in (("resident_bytes", "resident memory"), ("device_bytes", "memory of the GPU")):
        found = growth_of(endurance, memory)  # type: ignore[arg-type]
        if found is not None and found.low * endurance.done > endurance.allowed_bytes:
            return (
                f"{name} grew by {found.slope:,.3g} bytes ({found.low:,.3g} to {found.high:,.3g}) for each"
                f" {endurance.unit}, {found.slope * endurance.done / 1e6:,.1f} MB over {endurance.done:,} of them;"
                f" expected at most {endurance.allowed_bytes / 1e6:,.1f} MB"
            )
    return None
