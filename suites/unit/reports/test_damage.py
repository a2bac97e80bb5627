"""Run files that were cut, changed or made by somebody else: never a traceback, never a success."""

import contextlib
import gzip
import io
import itertools
import json
import os
import re

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from reports import Status, load_run
from reports.options import Exit
from suites.commands.command_line import main
from suites.unit.processes import run
from suites.unit.reports.builders import make_cell, make_record, make_run, whole

RECORDS = [
    make_record(make_cell(backend="jnp", size=64)),
    make_record(make_cell(size=64)),
    make_record(make_cell(backend="jnp")),
    make_record(make_cell()),
]
GOOD = whole(RECORDS)
ARCHIVE = gzip.compress(GOOD, mtime=0)
WRONG = whole([*RECORDS[:-1], make_record(make_cell(), status=Status.WRONG_VALUE, accuracy=None)])


@pytest.fixture
def runs(tmp_path, monkeypatch):
    monkeypatch.setenv("KERNEL_BRIDGE_RUNS", str(tmp_path))
    return tmp_path


def shown(path, *command):
    """The exit code, and the lines on standard error, of `show` unless another command is given."""
    errors = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(errors):
        code = main([*(command or ("show", str(path)))])
    return code, errors.getvalue().splitlines()


def test_a_damaged_line_costs_one_record(runs):
    records = [make_record(make_cell(size=size)) for size in range(1, 71)]
    lines = whole(records).splitlines(keepends=True)
    (runs / "a.jsonl").write_bytes(b"".join([*lines[:9], b'{"kind": "cell", garbage\n', *lines[10:]]))
    code, errors = shown(None, "show", "a")
    assert code == Exit.COULD_NOT_RUN
    assert len(errors) < 5
    assert any("a.jsonl:10: left out" in line for line in errors)
    assert len(load_run(runs / "a.jsonl").records) == 69


def test_an_archive_that_was_cut_gives_what_it_holds(runs):
    records = [make_record(make_cell(size=size)) for size in range(1, 400)]
    data = gzip.compress(whole(records), mtime=0)
    (runs / "a.jsonl.gz").write_bytes(data[: len(data) // 2])
    held = load_run(runs / "a.jsonl.gz")
    assert len(held.records) > 60
    assert not held.is_complete
    assert shown(None, "show", "a")[0] == Exit.COULD_NOT_RUN


@pytest.mark.parametrize(
    ("lines", "words"),
    [(1, "holds no record"), (2, "INCOMPLETE: 3 of 4 cells are missing: "),
     (5, "INCOMPLETE: the session ended early")],
)  # fmt: skip
def test_a_session_that_died_shows_incomplete(runs, lines, words):
    (runs / "good.jsonl").write_bytes(GOOD)
    (runs / "a.jsonl").write_bytes(b"".join(GOOD.splitlines(keepends=True)[:lines]))
    code, said = shown(None, "compare", "good", "good")
    assert (code, [line for line in said if words in line]) == (Exit.FINE, [])
    for command in (("show", "a"), ("compare", "good", "a"), ("compare", "a", "good")):
        code, errors = shown(None, *command)
        assert code == Exit.COULD_NOT_RUN
        assert any(words in line for line in errors)


@st.composite
def damaged(draw, data):
    """A file of which some bytes or lines are gone, or are other bytes or lines."""
    lines = [*itertools.accumulate(map(len, data.splitlines(keepends=True)), initial=0)]
    places = st.one_of(st.integers(0, len(data)), st.sampled_from(lines))
    start, end, first, last = draw(places), draw(places), draw(places), draw(places)
    piece = draw(st.one_of(st.binary(max_size=30), st.just(data[first:last])))
    damage = data[:start] + piece + data[max(start, end) :]
    assume(damage.rstrip() != data.rstrip())
    return damage


EFFORT = settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@EFFORT
@given(damage=st.one_of(damaged(GOOD), damaged(WRONG)))
@example(damage=GOOD[:-1] + b"x")
def test_no_damage_leaves_a_run_fine_or_hides_a_wrong_cell(runs, damage):
    path = runs / "a.jsonl"
    path.write_bytes(damage)
    code, errors = shown(path)
    # The last line is covered by no checksum. What changes in it is its time, its duration or a space.
    same = damage[: GOOD.rindex(b'{"kind":"end"')] == GOOD[: GOOD.rindex(b'{"kind":"end"')]
    is_wrong = b"WRONG_VALUE" in damage
    assert code == Exit.COULD_NOT_RUN or (same and code == Exit.FINE) or (is_wrong and code == Exit.WRONG)
    assert errors or code == Exit.FINE
    assert not any("Please report" in line or "Traceback" in line for line in errors)


def test_a_cell_that_head_lacks_is_not_fine(runs):
    (runs / "a.jsonl").write_bytes(GOOD)
    (runs / "b.jsonl").write_bytes(whole(RECORDS[:2]))
    code, errors = shown(None, "compare", "a", "b")
    assert code == Exit.COULD_NOT_RUN
    assert any(re.search(r"head has no result for \d of \d cells: lif_step-numba", line) for line in errors)
    assert shown(None, "compare", "b", "a")[0] == Exit.FINE


def _line(**changes):
    lines = GOOD.splitlines()
    return b"\n".join([lines[0], json.dumps({**json.loads(lines[1]), **changes}).encode(), *lines[2:]]) + b"\n"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (_line(seed=10**30), "a.jsonl:2: not a cell record of schema 4: Expected `int` <= 9223372036854775807"),
        (_line(seed=0).replace(b'"seed": 0', b'"seed": ' + b"1" * 6000), "a.jsonl:2: left out, not JSON"),
        (b"\xff\xfe" + GOOD, "a.jsonl:1: left out, not JSON"),
        (b"", "holds no record"),
        *((data, "a.jsonl.gz: ") for data in (b"not gzip", ARCHIVE[:60], b"")),
        (whole([make_record(run=make_run(run_id="b"))]) + GOOD, "is of run '20261120T190102-3f2a', the lines before"),
    ],
)
def test_strange_content_is_one_line_and_exit_3(runs, data, words):
    path = runs / ("a.jsonl.gz" if words.startswith("a.jsonl.gz") else "a.jsonl")
    path.write_bytes(data)
    code, errors = shown(path)
    assert len(errors) == 1 or path.suffix != ".gz"
    assert code == Exit.COULD_NOT_RUN
    assert any(words in line for line in errors), errors
    assert not any("Please report" in line for line in errors)


@pytest.mark.parametrize("piece", [b" " * 2**20, GOOD.splitlines()[1] + b"\n"], ids=["one line", "records"])
def test_an_archive_that_grows_without_end_takes_little_memory(runs, piece):
    path = runs / "a.jsonl.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(2**27 // len(piece)):
            file.write(piece)
    program = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (3 * 2**29,) * 2)\n"
        "from reports import RunUnreadable, load_run\n"
        f"try: load_run({str(path)!r})\n"
        "except RunUnreadable as error: print(error)\n"
    )
    done = run("-c", program)
    assert (done.returncode, done.stderr) == (0, "")
    assert "This is no run of kernel-bridge" in done.stdout or "lines of this file are damaged" in done.stdout


def test_what_is_no_file_is_said(runs):
    os.mkfifo(runs / "pipe.jsonl")
    (runs / "folder.jsonl").mkdir()
    (runs / "gone.jsonl").symlink_to(runs / "nowhere")
    (runs / "plain").mkdir()
    for name, words in (
        ("pipe", "is no regular file"), ("folder", "is a folder"), ("gone", "No such file or directory"),
        ("plain", "is a folder. Name a run in it, or give the folder with --runs, as in: show latest --runs "),
        ("x" * 5000, "no run 'xxx"), ("a\0b", r"no run 'a\x00b'"),
    ):  # fmt: skip
        code, errors = shown(None, "show", str(runs / name) if name == "plain" else name)
        assert (code, len(errors)) == (Exit.COULD_NOT_RUN, 1), errors
        assert words in errors[0]
    assert shown(None, "show")[0] == Exit.COULD_NOT_RUN
