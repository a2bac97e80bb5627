"""Run files: written, continued after a crash, found and read."""

import re

import msgspec
import pytest

from reports.errors import RecordError, RunNotFound, RunUnreadable
from reports.records.run_file import load_run
from reports.records.run_writer import RunWriter
from reports.records.status import Status
from reports.records.store import find_run, new_run_id
from suites.unit.processes import output
from suites.unit.reports.builders import begun, make_cell, make_record, make_result, make_run, whole


def append(writer, size=4096, **changes):
    return writer.append(make_result(make_cell(size=size), **changes))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs" / f"{make_run().run_id}.jsonl"


def test_each_record_is_in_the_file_before_append_returns(path):
    oom = {"status": Status.OOM, "reason": "too big"}
    with RunWriter(path, make_run()):
        pass
    assert not path.exists(), "a run without a record leaves no file"
    with begun(path) as writer:
        written = []
        for size, changes in ((1, {}), (2, oom), (3, {"bandwidth_limit": 8e9, "bandwidth_limit_kind": "read, L2"})):
            written.append(append(writer, size, **changes))
            with pytest.raises(RecordError, match="A time exists only for a cell that passed"):
                writer.append(msgspec.structs.replace(make_result(), **oom))
            assert load_run(path).records == written
    assert [record.index for record in written] == [0, 1, 2]


@pytest.mark.parametrize("kept", [1, 40, None])
def test_a_line_cut_short_by_a_crash_costs_only_itself(path, kept):
    with begun(path) as writer:
        append(writer, 1)
        append(writer, 2)
    begin, first, second = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(begin + first + second.rstrip()[:kept])
    assert [record.cell.size for record in load_run(path).records] == [1]
    assert load_run(path).problems[0].startswith(f"{path}:3: left out")
    with begun(path) as writer:
        append(writer, 3)
    found = load_run(path)
    assert [(record.index, record.cell.size) for record in found.records] == [(0, 1), (1, 3)]
    assert found.problems == []


def test_another_run_is_not_written_into_a_file(path):
    with begun(path) as writer:
        append(writer)
    with pytest.raises(RunUnreadable, match="Write each run to its own file"):
        RunWriter(path, make_run(run_id="other"))


def test_a_published_run_is_not_continued(path):
    with pytest.raises(RunUnreadable, match="Decompress"):
        RunWriter(path.with_suffix(".jsonl.gz"), make_run())


def touch(folder, *names):
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_bytes(b"-")


def test_runs_are_found_by_path_id_and_prefix_the_uncompressed_file_first(tmp_path):
    touch(tmp_path, "20260101T000000-aaaa.jsonl", "20260102T000000-bbbb.jsonl.gz", "a.jsonl", "ab.jsonl", "a.jsonl.gz")
    for name, found in [
        (tmp_path / "20260101T000000-aaaa.jsonl", "20260101T000000-aaaa.jsonl"),
        ("20260102T000000-bbbb", "20260102T000000-bbbb.jsonl.gz"),
        ("20260101", "20260101T000000-aaaa.jsonl"),
        ("a", "a.jsonl"),
    ]:
        assert find_run(name, tmp_path) == tmp_path / found


def test_what_is_not_found_says_what_there_is(tmp_path):
    with pytest.raises(RunNotFound, match="no folder"):
        find_run("latest", tmp_path / "none")
    with pytest.raises(RunNotFound, match="no runs in"):
        find_run("latest", tmp_path)
    assert re.fullmatch(r"\d{8}T\d{6}-[0-9a-f]{4}", new_run_id()), "so runs sort by time"
    touch(tmp_path, "20260102T000000-bbbb.jsonl", "20260102T000001-cccc.jsonl")
    with pytest.raises(RunNotFound, match="begins 2 runs"):
        find_run("20260102", tmp_path)
    with pytest.raises(RunNotFound, match="the latest is 20260102T000001-cccc"):
        find_run("2025", tmp_path)


def written(folder, run_id, cells=(4096,), **header):
    """A run of these sizes; its id says when it started."""
    run = make_run(run_id=run_id, **header)
    (folder / f"{run_id}.jsonl").write_bytes(whole([make_record(make_cell(size=size), run=run) for size in cells]))


def test_latest_and_previous_are_runs_that_can_be_compared(tmp_path):
    written(tmp_path, "20260101T000000-base", cells=(1, 2))
    written(tmp_path, "20260102T000000-else", cells=(7,))
    written(tmp_path, "20260103T000000-checks", cells=(1, 2), profile="validate quick")
    written(tmp_path, "20260104T000000-head", cells=(2, 3))
    # Neither a run that died before its first result, nor a broken file, nor one from the future is the latest.
    with begun(tmp_path / "20260105T000000-dead.jsonl", make_run(run_id="20260105T000000-dead")):
        pass
    (tmp_path / "20260106T000000-broken.jsonl").write_bytes(b"[1]\n")
    (tmp_path / "20260107T000000-empty.jsonl").touch()
    written(tmp_path, "20990101T000000-late", cells=(2,), started="2099-01-01T00:00:00+00:00")
    assert find_run("latest", tmp_path).name == "20260104T000000-head.jsonl"
    assert find_run("previous", tmp_path).name == "20260101T000000-base.jsonl"
    assert find_run("20990101", tmp_path).name == "20990101T000000-late.jsonl"
    head = tmp_path / "20260104T000000-head.jsonl"
    head.write_bytes(b"".join(head.read_bytes().splitlines(keepends=True)[:2]))
    assert find_run("latest", tmp_path) == head, "it was interrupted"


def test_without_a_run_that_can_be_compared_the_error_says_why(tmp_path):
    written(tmp_path, "20260101T000000-base", cells=(1,))
    written(tmp_path, "20260102T000000-head", cells=(2,))
    with pytest.raises(RunNotFound, match="can be compared with it"):
        find_run("previous", tmp_path)
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "a.jsonl").touch()
    with pytest.raises(RunNotFound, match="holds a result"):
        find_run("latest", tmp_path / "none")


FULL = """
import resource, signal, sys
from pathlib import Path
from reports import RunUnwritable, RunWriter
from suites.unit.reports.builders import make_cell, make_result, make_run

path = Path(sys.argv[1])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with RunWriter(path, make_run()) as writer:
    writer.begin([make_cell(size=size) for size in range(1, 6)])
    writer.append(make_result(make_cell(size=1)))
    writer.append(make_result(make_cell(size=2)))
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 100, resource.RLIM_INFINITY))
    for size in (3, 4):
        try:
            writer.append(make_result(make_cell(size=size)))
        except RunUnwritable as error:
            print(error.args[0].rpartition(": ")[2])
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    writer.append(make_result(make_cell(size=5)))
"""


def test_a_full_disk_loses_no_earlier_record_and_the_run_goes_on_when_there_is_room(tmp_path):
    """The limit for the size of a file stands for the size of the disk."""
    path, program = tmp_path / "run.jsonl", tmp_path / "full.py"
    program.write_text(FULL)
    assert output(program, path).splitlines() == ["File too large."] * 2
    found = load_run(path)
    assert ([record.cell.size for record in found.records], found.problems) == ([1, 2, 5], [])
