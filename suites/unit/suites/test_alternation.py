"""Two revisions in waves: how many, in what order, and what is recorded of each; with a fake panel."""

from pathlib import Path

import msgspec
import pytest

from reports import CellResult, ProcessTimes, Status, Timing, load_run
from reports.cli import comparison_page
from reports.judgement import judge
from reports.options import Exit
from reports.pages.alike import are_interleaved
from suites.bench.merging import CellResults
from suites.bench.messages import PROTOCOL, Opened
from suites.bench.process_pool import PoolError
from suites.bench.screen import Screen
from suites.cells.selection import Selection
from suites.commands.command_line import parsed
from suites.compare.interleaving import measure
from suites.compare.revisions.revision import Revision
from suites.compare.revisions.revision_pair import RevisionPair
from suites.errors import RevisionError
from suites.unit.reports.builders import make_cell, make_run

SELECTION = Selection(sources=("my_ops.py",), dtypes=("f32",))


def side(label, **changes):
    facts = {
        "label": label, "commit": label[0] * 40, "sources": (f"/{label}/my_ops.py",),
        "variables": {"PYTHONPATH": f"/{label}/lib"}, "tree": Path(f"/{label}"), "folder": Path(f"/{label}"),
    }  # fmt: skip
    return Revision(**{**facts, **changes})


SIDES = RevisionPair(side("base"), side("head"), ("my_ops.py",), (), Path("/root"))


def cells(*names, **changes):
    return [make_cell(operator=name, backend=backend, **changes) for name in names for backend in ("jnp", "numba")]


def passed(cell, ns):
    timing = Timing(method="two_points", cache="hot", stop="enough", processes=[ProcessTimes(samples_ns=(ns,))])
    return CellResult(cell=cell, shapes=[[4096]], dtypes=["float32"], seed=0, status=Status.PASSED, timing=timing)


def failed(cell, status=Status.CRASHED):
    return CellResult(cell=cell, shapes=[], dtypes=[], seed=0, status=status, reason="because")


class Fake:
    """Makes panels, which time nothing. Wave w gives base w.0 and w.1 microseconds, and head w.2 and w.3."""

    def __init__(self, own, *, contest_s=1.0, fails=lambda wave, label, cell: False, on_time=lambda wave: None):
        self.own, self.contest_s, self.fails, self.on_time = own, contest_s, fails, on_time
        self.specs, self.checked, self.waves, self.now, self.ended = [], [], 0, 0.0, 0
        self.contests, self.status = [], Status.CRASHED

    def clock(self):
        return self.now

    def __call__(self, specs, scratch, **options):
        self.specs.append(specs)
        self.checked.append(options["checks"])
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
                CellResults(cell, failed(cell, self.status))
                if self.fails(self.waves, label, cell)
                else CellResults(cell, None, [passed(cell, first), passed(cell, first + 1)])
                for cell in own
            ]
        return found


def run(fake, tmp_path, seconds=1000.0, sides=SIDES, waves=3, **options):
    """Measures until there were so many waves."""
    return measure(
        sides, SELECTION, seconds=seconds, runs=tmp_path, pool_factory=fake, clock=fake.clock,
        **{"undecided": lambda base, head: ["add"] * (fake.waves < waves)} | options,
    )  # fmt: skip


def blocks(path):
    """The median of each process, by cell and by block."""
    return {
        record.cell.id: {process.block: process.median_ns for process in record.timing.processes}
        for record in load_run(path).records
        if record.timing
    }


def test_waves_follow_until_every_cell_is_decided(tmp_path):
    own = cells("add", "mul")
    fake = Fake({"base": own, "head": own})
    screen = Screen()
    measured = run(fake, tmp_path, screen=screen)
    assert fake.waves == fake.ended == 3
    assert screen.total == 3 * 4
    assert screen.left_s() == 0
    assert fake.contests == [{"base": ["numba"], "head": ["numba"]}] * 6, "jnp is not timed"
    assert fake.checked == [True, False, False], "cells are checked in the first wave"
    assert measured.notes[0].startswith("6 processes of each revision; load of the machine ")
    for found, place in ((measured.base, 0), (measured.head, 2)):
        times = blocks(found.path)
        assert set(times) == {"add-numba-f32-4096-cpu", "mul-numba-f32-4096-cpu"}
        expected = {2 * wave + i: 1000.0 * (wave + 1) + place + i for wave in range(3) for i in (0, 1)}
        assert all(one == expected for one in times.values())


def test_four_processes_can_decide_and_a_number_that_is_asked_for_is_taken(tmp_path):
    for options, waves in (({}, 2), ({"processes": 1}, 1), ({"processes": 5}, 3)):
        fake = Fake({"base": cells("add"), "head": cells("add")})
        run(fake, tmp_path, waves=1, **options)
        assert fake.waves == waves


def test_undecided_cells_are_named_when_the_time_is_over(tmp_path):
    fake = Fake({"base": cells("add"), "head": cells("add")}, contest_s=10.0)
    measured = run(fake, tmp_path, seconds=25.0, waves=99)
    assert fake.waves == 2
    assert measured.notes[1].startswith("undecided after 0.3 minutes: 1 cells: add; take --minutes")


@pytest.mark.parametrize(("seconds", "is_short"), [(600.0, False), (60.0, True)])
def test_the_least_time_is_said_before_anything_is_timed(tmp_path, capsys, seconds, is_short):
    own = cells(*(f"operator_{number}" for number in range(10)))
    fake = Fake({"base": own, "head": own})
    fake.on_time = lambda wave: fake.contests[1:] or said.append(capsys.readouterr().err)
    said = []
    run(fake, tmp_path, seconds=seconds)
    assert "20 cells of both revisions; 4 processes of each take about 2 minutes" in said[0]
    assert ("longer than --minutes 1: name fewer cells" in said[0]) is is_short


def test_a_selection_that_only_head_has_is_new_and_no_error(tmp_path):
    fake = Fake({"base": [], "head": cells("new")})
    opened = {label: msgspec.structs.replace(each, skipped=[]) for label, each in fake.open().items()}
    opened["base"] = msgspec.structs.replace(opened["base"], refusal="--operator new: there is no operator")
    fake.open = lambda: opened
    measured = run(fake, tmp_path)
    assert measured.notes[0] == "base has no cell: --operator new: there is no operator"
    options = parsed(["compare", "base", "head", "--operator", "new"])
    page, code, lines = comparison_page((measured.base, measured.head), options)
    assert (lines, code) == (["cells: 1 NEW"], Exit.FINE)
    assert [table.title.partition(" of")[0] for table in page.tables] == ["Comparison"]


def test_the_runs_name_their_commits_and_each_other(tmp_path):
    own = cells("add")
    measured = run(Fake({"base": own, "head": own}), tmp_path)
    base, head = measured.base, measured.head
    assert base.path.name < head.path.name, "the base is the previous run"
    assert (base.headers[0].source.commit, head.headers[0].source.commit) == ("b" * 40, "h" * 40)
    assert base.headers[0].source.dirty is False
    assert are_interleaved(base.headers[0], head.headers[0])
    assert not are_interleaved(base.headers[0], make_run())
    assert not are_interleaved(make_run(), make_run())
    assert base.headers[0].selection == {"source": ["my_ops.py"], "dtype": ["f32"]}
    assert [judge(run).exit for run in (base, head)] == [Exit.FINE, Exit.FINE]


def test_the_time_ends_a_wave_between_two_contests_but_not_before_four_processes(tmp_path):
    own = cells("add", "mul", "sub")
    fake = Fake({"base": own, "head": own}, contest_s=10.0)
    run(fake, tmp_path, seconds=5.0)
    assert (fake.waves, len(fake.contests)) == (2, 6)
    fake = Fake({"base": own, "head": own}, contest_s=10.0)
    fake.on_time = lambda wave: setattr(fake, "now", fake.now + 15.0 * (wave == 3))
    measured = run(fake, tmp_path, seconds=100.0)
    assert fake.waves == 3, "the third wave took longer than the ones before"
    assert {len(found) for found in blocks(measured.head.path).values()} == {4, 6}, "what it finished counts"


def test_a_cell_that_fails_in_one_wave_has_failed(tmp_path):
    own = cells("add")
    fake = Fake({"base": own, "head": own}, fails=lambda wave, label, cell: wave == 2 and label == "head")
    measured = run(fake, tmp_path)
    statuses = {record.cell.backend: record.status for record in measured.head.records}
    assert statuses == {"warp": Status.SKIPPED, "numba": Status.CRASHED}


@pytest.mark.parametrize("error", [PoolError("a timing process was lost"), KeyboardInterrupt()])
def test_what_was_timed_before_an_error_is_an_incomplete_run(tmp_path, error):
    own = cells("add")

    def on_time(wave):
        if wave == 3:
            raise error

    with pytest.raises(RevisionError if isinstance(error, PoolError) else KeyboardInterrupt) as caught:
        run(Fake({"base": own, "head": own}, on_time=on_time), tmp_path)
    paths = sorted(tmp_path.glob("*.jsonl"))
    assert len(paths) == 2
    for path in paths:
        assert judge(load_run(path)).exit is Exit.COULD_NOT_RUN
        assert {len(found) for found in blocks(path).values()} == {4}
    if isinstance(error, PoolError):
        assert str(caught.value).startswith("a timing process was lost; what was timed before is in ")
