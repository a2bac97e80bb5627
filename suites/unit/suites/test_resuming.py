"""A run is continued only if everything is as it was."""

import msgspec
import pytest

from reports import ReportError, Source, find_run
from suites.cells.selection import SelectionError
from suites.processes.resuming import continued_header, find_resumed, load_for_resume
from suites.unit.reports.builders import FLAGS, HOST, make_cell, make_pair, make_record, make_run, whole

CHANGES = {
    "commit": {"source": Source(commit="fedcba", dirty=False)},
    "content of the source files": {"source": Source(commit="0123456789abcdef", dirty=False, digest="ab")},
    "versions.jax": {"versions": {"jax": "0.11"}},
    "host.threads.numba": {"host": msgspec.structs.replace(HOST, threads={"numba": 1})},
    "selection.operator": {"selection": {"operator": ["add"]}},
}


@pytest.mark.parametrize("what", CHANGES)
def test_each_difference_is_named(what):
    with pytest.raises(SelectionError) as caught:
        continued_header("latest", [make_run()], make_run(**CHANGES[what]))
    said = str(caught.value)
    assert said.startswith("--resume latest: that run was made elsewhere or otherwise: ")
    assert f"{what}: then " in said
    assert said.endswith("or start a new run without --resume.")
    assert "\n" not in said


def test_the_load_of_the_machine_and_the_time_may_differ():
    later = make_run(
        run_id="later", started="2026-11-21T00:00:00+00:00", host=msgspec.structs.replace(HOST, load=3.0),
        flags={**FLAGS, "not_set": None},
    )  # fmt: skip
    header = continued_header("latest", [make_run()], later)
    assert (header.run_id, header.started) == (make_run().run_id, make_run().started)


def test_the_latest_run_is_continued_also_if_it_holds_no_result(tmp_path, monkeypatch):
    monkeypatch.setenv("KERNEL_BRIDGE_RUNS", str(tmp_path))
    data = whole(make_pair(1000.0, 500.0))
    for name, content in (("20260101T000000-aaaa", data), ("20260102T000000-bbbb", data.splitlines(keepends=True)[0])):
        (tmp_path / f"{name}.jsonl").write_bytes(content)
    assert [find_resumed("latest").name[-10:-6], find_run("latest").name[-10:-6]] == ["bbbb", "aaaa"]


def test_a_run_that_lost_its_last_line_is_opened_and_a_damaged_or_older_one_is_not(tmp_path):
    path = tmp_path / "a.jsonl"
    data = whole(make_pair(1000.0, 500.0))
    lines = data.splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:2]) + lines[2][:50])
    assert len(load_for_resume("a", path).records) == 1
    path.write_bytes(lines[0] + lines[1][:50] + b"\n" + lines[2])
    with pytest.raises(SelectionError, match=r"--resume a: .*a\.jsonl:2: .*A damaged run cannot be continued"):
        load_for_resume("a", path)
    path.write_bytes(b"{}\n")
    with pytest.raises(ReportError, match=r"a\.jsonl:1: expected a JSON object"):
        load_for_resume("a", path)
    old = msgspec.to_builtins(make_record(make_cell()))
    del old["kind"]
    path.write_bytes(msgspec.json.encode(old | {"schema": 2}) + b"\n")
    with pytest.raises(ReportError, match="written with schema 2, expected 4"):
        load_for_resume("a", path)
