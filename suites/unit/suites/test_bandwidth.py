"""Which measured bandwidth a kernel is compared with."""

import pytest

from suites.bench import bandwidth

KIB, MIB = 1 << 10, 1 << 20


@pytest.fixture
def measured(monkeypatch):
    """The measurements asked for; each gives 1 GB/s."""
    asked = []
    monkeypatch.setattr(bandwidth, "cache_bytes", lambda: {"L2": MIB, "L3": 32 * MIB})
    monkeypatch.setattr(bandwidth, "measure", lambda *which: asked.append(which) or 1e9)
    return asked


@pytest.mark.parametrize(
    ("read", "written", "level", "kind"),
    [
        (KIB, KIB, "L2", "copy, L2 cache"),
        (MIB, MIB, "L3", "copy, L3 cache"),
        (64 * MIB, KIB, "memory", "read, memory"),
        (8 * MIB, MIB, "L3", "copy, L3 cache"),
    ],
)
def test_a_roof_fits_the_working_set_and_its_traffic(measured, read, written, level, kind):
    assert bandwidth.roof(read, written) == (1e9, kind)
    assert measured == [(level, kind.partition(",")[0])]
