"""A session says how long it may still take."""

from suites.processes import progress
from suites.processes.progress import Progress


def test_the_time_left_is_that_of_the_items_that_a_phase_has_not_seen(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    session = Progress("cells", "prepare", "time")
    session.total = 4
    for phase, seconds in (("prepare", 2.0), ("time", 3.0)):
        assert session.left_s() is None
        now[0] += seconds
        session.step(phase)
    assert session.left_s() == 3 * 2.0 + 3 * 3.0
    session.step("prepare", items=5)  # another pool prepares the cells once more
    assert session.left_s() == 3 * 3.0
