"""Two revisions in waves: how many, in what order, and what is recorded of each; with a fake panel."""

from pathlib import Path

import pytest

from reports import CellResult, ProcessTimes, Status, Timing, load_run
from reports.judgement import judge
from reports.options import Exit
from reports.pages.alike import are_interleaved
from reports.statistics.ranks import processes_needed
from suites.cells.selection import Selection
from suites.errors import RevisionError
from suites.revisions.sides import Side, Sides
from suites.sessions.alternation import measure
from suites.sessions.events import PROTOCOL, Opened
from suites.sessions.panel import PanelError
from suites.unit.reports.builders import make_cell, make_run

SELECTION = Selection(sources=("my_ops.py",), dtypes=("f32",))


def side(label, **changes):
    facts = {
        "label": label, "commit": label[0] * 40, "python": Path(f"/{label}/bin/python"),
        "sources": (f"/{label}/my_ops.py",),
        "variables": {"PYTHONPATH": f"/{label}/lib"}, "tree": Path(f"/{label}"), "folder": Path(f"/{label}"),
        "package": Path(f"/{label}/suites"), "protocol": PROTOCOL,
    }  # fmt: skip
    return Side(**{**facts, **changes})


SIDES = Sides(side("base"), side("head"), ("my_ops.py",), ())


def cells(*names, **changes):
    return [make_cell(operator=name, backend=backend, **changes) for name in names for backend in ("jnp", "numba")]


def passed(cell, values):
    processes = [ProcessTimes(samples_ns=[value]) for value in values]
    timing = Timing(method="two_points", cache="hot", stop="enough", processes=processes)
    return CellResult(cell=cell, shapes=[[4096]], dtypes=["float32"], seed=0, status=Status.PASSED, timing=timing)


def failed(cell):
    return CellResult(cell=cell, shapes=[], dtypes=[], seed=0, status=Status.CRASHED, reason="SIGSEGV")


class Fake:
    """Makes panels, which time nothing. Wave w gives base w.0 and w.1 microseconds, and head w.2 and w.3."""

    def __init__(self, own, *, contest_s=1.0, fails=lambda wave, label, cell: False, on_time=lambda wave: None):
        self.own, self.contest_s, self.fails, self.on_time = own, contest_s, fails, on_time
        self.specs, self.waves, self.now, self.ended = [], 0, 0.0, 0
        self.contests = []

    def clock(self):
        return self.now

    def __call__(self, specs, scratch, **options):
        self.specs.append(specs)
        self.waves += 1
        return self

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.ended += 1

    def open(self):
        warp = make_cell(operator="add", backend="warp")
        skipped = [CellResult(cell=warp, shapes=[], dtypes=[], seed=0, status=Status.SKIPPED, reason="no warp")]
        return {label: Opened(PROTOCOL, make_run(), own, skipped) for label, own in self.own.items()}

    def prepare(self, cells):
        self.prepared = {cell.key for own in cells.values() for cell in own}

    def time(self, contest, seconds, turns):
        assert all(cell.key in self.prepared for own in contest.values() for cell in own)
        self.contests.append({label: [cell.backend for cell in own] for label, own in contest.items()})
        self.now += self.contest_s
        self.on_time(self.waves)
        found = {}
        for label, own in contest.items():
            first = 1000.0 * self.waves + (0 if label == "base" else 2)
            found[label] = [
                failed(cell) if self.fails(self.waves, label, cell) else passed(cell, [first, first + 1])
                for cell in own
            ]
        return found


def run(fake, tmp_path, seconds=1000.0, sides=SIDES, **options):
    return measure(
        sides, SELECTION, seconds=seconds, q=0.05, runs=tmp_path, panel_factory=fake, clock=fake.clock, **options
    )


def medians(path):
    return {record.cell.id: record.timing and record.timing.medians_ns for record in load_run(path).records}


def test_waves_follow_until_a_verdict_is_possible(tmp_path):
    own = cells("add", "mul")
    fake = Fake({"base": own, "head": own})
    lines = []
    measured = run(fake, tmp_path, say=lines.append)
    needed = processes_needed(4, 0.05)
    assert measured.processes >= needed > measured.processes - 2
    assert measured.note is None
    assert fake.waves == fake.ended == len(lines) == measured.processes // 2
    for path, place in ((measured.base, 0), (measured.head, 2)):
        times = medians(path)
        assert times.pop("add-warp-f32-4096-cpu") is None
        assert set(times) == {cell.id for cell in own}
        waves = range(1, fake.waves + 1)
        assert all(found == [1000.0 * wave + place + i for wave in waves for i in (0, 1)] for found in times.values())


def test_each_side_starts_its_own_python_with_its_own_operators(tmp_path):
    own = cells("add")
    fake = Fake({"base": own, "head": own})
    run(fake, tmp_path)
    (first, *_) = fake.specs
    assert [spec.label for spec in first] == ["base", "head", "head", "base"]
    for spec in first:
        assert spec.command[0] == f"/{spec.label}/bin/python"
        assert f"/{spec.label}/suites/bench/test_speed.py" in spec.command
        assert spec.command[spec.command.index("--kb-operators") + 1] == f"/{spec.label}/my_ops.py"
        assert spec.variables["PYTHONPATH"] == f"/{spec.label}/lib"
        assert spec.folder == Path(f"/{spec.label}")
    caches = {spec.label: spec.variables["KERNEL_BRIDGE_CACHE_DIR"] for spec in first}
    assert caches["base"] != caches["head"]


def test_the_runs_name_their_commits_and_each_other(tmp_path):
    own = cells("add")
    measured = run(Fake({"base": own, "head": own}), tmp_path)
    base, head = (load_run(path) for path in (measured.base, measured.head))
    assert (base.headers[0].source.commit, head.headers[0].source.commit) == ("b" * 40, "h" * 40)
    assert base.headers[0].source.dirty is False
    assert are_interleaved(base.headers[0], head.headers[0])
    assert not are_interleaved(base.headers[0], make_run())
    assert not are_interleaved(make_run(), make_run())
    assert base.headers[0].selection == {"source": ["my_ops.py"], "dtype": ["f32"]}
    assert [judge(run).exit for run in (base, head)] == [Exit.FINE, Exit.FINE]


def test_the_time_ends_the_waves_between_two_contests_but_never_in_the_first(tmp_path):
    own = cells("add", "mul", "sub")
    fake = Fake({"base": own, "head": own}, contest_s=10.0)
    measured = run(fake, tmp_path, seconds=5.0)
    assert (fake.waves, measured.processes, len(fake.contests)) == (1, 2, 3)
    assert "take --minutes 2, or fewer cells" in measured.note
    fake = Fake({"base": own, "head": own}, contest_s=10.0)
    fake.on_time = lambda wave: setattr(fake, "now", fake.now + 15.0 * (wave == 2))
    measured = run(fake, tmp_path, seconds=70.0)
    assert (fake.waves, measured.processes) == (2, 2), "the second wave took longer than the first"
    counts = {len(found) for found in medians(measured.head).values() if found}
    assert counts == {2, 4}, "what the second wave finished counts"
    assert medians(measured.base).keys() == medians(measured.head).keys()


def test_a_side_without_a_cell_is_compared_in_the_others(tmp_path):
    measured = run(Fake({"base": cells("add"), "head": cells("add", "new")}), tmp_path)
    assert set(medians(measured.head)) - set(medians(measured.base)) == {cell.id for cell in cells("new")}


def test_a_new_version_of_an_operator_meets_the_old_one(tmp_path):
    fake = Fake({"base": cells("add"), "head": cells("add", operator_version=2)})
    run(fake, tmp_path)
    assert fake.contests[0] == {"base": ["jnp", "numba"], "head": ["jnp", "numba"]}


def test_process_i_of_both_sides_met_in_one_wave(tmp_path):
    own = cells("add")
    fake = Fake({"base": own, "head": own})
    real = fake.time

    def without_one(contest, seconds, turns):
        found = real(contest, seconds, turns)
        if fake.waves == 2:
            found["head"] = found["head"][:1]  # the second cell is lost
        return found

    fake.time = without_one
    measured = run(fake, tmp_path)
    for base, head in zip(medians(measured.base).values(), medians(measured.head).values(), strict=True):
        assert (base is None) == (head is None)
        assert base is None or [value // 1000 for value in base] == [value // 1000 for value in head]


def test_a_cell_that_fails_in_one_wave_has_failed(tmp_path):
    own = cells("add")
    fake = Fake({"base": own, "head": own}, fails=lambda wave, label, cell: wave == 2 and cell.backend == "numba")
    measured = run(fake, tmp_path)
    statuses = {record.cell.backend: record.status for record in load_run(measured.head).records}
    assert statuses == {"warp": Status.SKIPPED, "jnp": Status.PASSED, "numba": Status.CRASHED}


@pytest.mark.parametrize("error", [PanelError("a timing process was lost"), KeyboardInterrupt()])
def test_what_was_timed_before_an_error_is_an_incomplete_run(tmp_path, error):
    own = cells("add")

    def on_time(wave):
        if wave == 3:
            raise error

    with pytest.raises(RevisionError if isinstance(error, PanelError) else KeyboardInterrupt) as caught:
        run(Fake({"base": own, "head": own}, on_time=on_time), tmp_path)
    paths = sorted(tmp_path.glob("*.jsonl"))
    assert len(paths) == 2
    for path in paths:
        assert judge(load_run(path)).exit is Exit.COULD_NOT_RUN
        assert {len(found) for found in medians(path).values() if found} == {4}
    if isinstance(error, PanelError):
        assert str(caught.value).startswith("a timing process was lost; what was timed before is in ")


def test_an_error_before_the_first_time_records_nothing(tmp_path):
    fake = Fake({"base": cells("add"), "head": cells("add")})

    def refuse():
        raise PanelError("no such device")

    fake.open = refuse
    with pytest.raises(RevisionError, match=r"^no such device$"):
        run(fake, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_revision_that_cannot_take_turns_is_refused(tmp_path):
    for protocol in (None, PROTOCOL + 1):
        sides = Sides(side("base", protocol=protocol), side("head"), (), ())
        with pytest.raises(RevisionError, match="cannot take turns with the ones of this version"):
            run(Fake({}), tmp_path, sides=sides)
