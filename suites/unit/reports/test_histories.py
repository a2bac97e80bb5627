"""The history of cells over runs of one machine: its series, its changes, and the command."""

import json

import numpy as np
import pytest

from reports.cli import main
from reports.history.histories import histories
from reports.history.history_table import history_frame
from reports.options import Exit
from reports.records.header import Source
from reports.records.run_file import load_run
from suites.unit.reports.builders import (
    FLAGS,
    GPU,
    HOST,
    make_cell,
    make_pair,
    make_record,
    make_run,
    make_timing,
    whole,
)


def run_of(number, factor=1.0, noise=1.0, jnp_ns=1000.0, **header):
    """The header and the records of a nightly run: jnp, and a kernel whose time is a factor of it."""
    fields = {
        "run_id": f"202611{number // 24 + 1:02}T{number % 24:02}0000-{number:04x}",
        "started": f"2026-11-{number // 24 + 1:02}T{number % 24:02}:00:00+00:00",
        "source": Source(commit=f"{number:040x}", dirty=False),
    }
    run = make_run(**{**fields, **header})
    return [
        make_record(record.cell, record.timing.median_ns, run) for record in make_pair(jnp_ns, jnp_ns * factor * noise)
    ]


def write(folder, records):
    path = folder / f"{records[0].run.run_id}.jsonl"
    path.write_bytes(whole(records))
    return path


@pytest.fixture
def nights(tmp_path):
    """Thirty runs; from the twentieth on, the kernel takes 30 % longer, and a library has another version."""
    random = np.random.default_rng(0)
    paths = []
    for number in range(30):
        slow = number >= 20
        noise = float(np.exp(0.02 * random.standard_normal()))
        state = 1000 * float(np.exp(0.1 * random.standard_normal()))
        versions = {"jax": "0.10.3" if slow else "0.10.2"}
        records = run_of(number, 1.56 if slow else 1.2, noise, state, versions=versions)
        paths.append(write(tmp_path, records))
    return paths


def test_a_slower_kernel_is_one_change_at_its_run(nights):
    jnp, numba = histories([load_run(path) for path in reversed(nights)])
    assert jnp.changes == ()
    assert (jnp.quantity, numba.quantity) == ("time", "ratio")
    assert [point.run_id for point in numba.points] == [path.stem for path in nights]
    (change,) = numba.changes
    assert change.index == 20
    assert change.after.commit == f"{20:040x}"
    assert change.before.run_id == nights[19].stem
    assert change.is_slower
    assert change.size.low <= 1.3 <= change.size.high
    assert change.time.low <= 1.3 <= change.time.high
    assert change.versions == {"jax": ("0.10.2", "0.10.3")}
    assert [(level.first, level.last) for level in numba.levels] == [(0, 19), (20, 29)]
    assert numba.levels[1].median == pytest.approx(1.56, rel=0.02)


def test_a_slower_baseline_shows_in_the_time_of_the_kernel(tmp_path):
    paths = [
        write(tmp_path, run_of(number, *((1.0, 1.0, 1000.0) if number < 12 else (2.0, 1.0, 500.0))))
        for number in range(24)
    ]
    jnp, numba = histories([load_run(path) for path in paths])
    assert [change.size.value for change in jnp.changes] == pytest.approx([0.5])
    (change,) = numba.changes
    assert change.size.value == pytest.approx(2.0)
    assert change.time.value == pytest.approx(1.0)


def test_runs_of_other_machines_and_settings_are_other_series(tmp_path):
    headers = [
        {},
        {"host": HOST.__class__(cpu="EPYC", cores=4, affinity=[0, 1], threads={"numba": 2}, os="Linux")},
        {"flags": {**FLAGS, "x64": True}},
        {},
    ]
    runs = [load_run(write(tmp_path, run_of(number, **header))) for number, header in enumerate(headers)]
    found = histories(runs)
    assert [(one.cell.backend, one.machine, len(one.points)) for one in found] == [
        ("jnp", 0, 2),
        ("numba", 0, 2),
        ("jnp", 1, 1),
        ("numba", 1, 1),
        ("jnp", 2, 1),
        ("numba", 2, 1),
    ]


@pytest.mark.parametrize(
    "changes",
    [
        {"cell": make_cell(operator_version=2)},
        {"shapes": [[64, 64]]},
        {"dtypes": ["float64"]},
        {"seed": 1},
        {"timing": make_timing(cache="hot")},
        {"timing": make_timing(method="cupti")},
    ],
)
def test_what_compare_does_not_compare_is_another_series(tmp_path, changes):
    first, second = run_of(0)[1], run_of(1)[1]
    changed = make_record(
        changes.get("cell", second.cell), run=second.run, **{k: changes[k] for k in changes if k != "cell"}
    )
    runs = [load_run(write(tmp_path, [record])) for record in (first, changed)]
    assert [len(one.points) for one in histories(runs)] == [1, 1]


def test_a_cell_that_failed_is_no_point_and_a_run_counts_once(tmp_path):
    good = write(tmp_path, run_of(0))
    failed = run_of(1)
    failed[1] = make_record(failed[1].cell, run=failed[1].run, status="WRONG_VALUE", reason="812 ulp")
    bad = write(tmp_path, failed)
    jnp, numba = histories([load_run(path) for path in (good, bad, good)])
    assert (len(jnp.points), len(numba.points)) == (2, 1)
    assert histories([]) == []


def test_a_gpu_is_judged_by_its_own_smallest_change(tmp_path):
    runs = []
    for number in range(40):
        factor = 1.0 if number < 20 else 1.015
        run = make_run(run_id=f"r{number:02}", started=f"2026-11-01T00:{number:02}:00+00:00", device=GPU)
        cell = make_cell(platform="cuda")
        wobble = 1 + 0.0005 * (number % 3)
        runs.append(load_run(write(tmp_path, [make_record(cell, 1000 * factor * wobble, run)])))
    (series,) = histories(runs)
    assert [change.index for change in series.changes] == [20]


def test_the_command_lists_changes_and_series(nights, capsys):
    folder = ["--runs", str(nights[0].parent)]
    assert main(["history", *folder, "--width", "80"]) == Exit.FINE
    shown = capsys.readouterr().out
    assert "Changes on cpu: Xeon" in shown
    assert "1 change, 1 of them slower, in 2 cells with 30 runs each" in shown
    assert nights[20].stem in shown
    assert "jax 0.10.2 → 0.10.3" in shown
    assert all(len(line) <= 80 for line in shown.splitlines())
    assert main(["history", *folder, "--series", "--backend", "numba"]) == Exit.FINE
    shown = capsys.readouterr().out
    assert "History of lif_step-numba-f32-4096-cpu" in shown
    assert all(path.stem in shown for path in nights)


def test_the_command_gives_all_points_as_data(nights, tmp_path, capsys):
    file = tmp_path / "history.csv"
    names = [path.stem for path in nights[18:23]]
    arguments = ["history", *names, "--runs", str(nights[0].parent), "--format", "json", "--export", str(file)]
    assert main(arguments) == Exit.FINE
    rows = json.loads(capsys.readouterr().out)
    assert [row["run"] for row in rows if row["backend"] == "numba"] == names
    assert file.read_text().count("\n") == 11


def test_the_frame_marks_the_change(nights):
    frame = history_frame(histories([load_run(path) for path in nights]))
    marked = frame[frame.change.notna()]
    assert list(marked.run) == [nights[20].stem]
    assert list(marked.backend) == ["numba"]
    assert frame.ratio_low.notna().sum() == 30


def test_a_bad_file_does_not_hide_the_others(nights, capsys):
    nights[3].write_bytes(b"")
    assert main(["history", "--runs", str(nights[0].parent)]) == Exit.COULD_NOT_RUN
    shown = capsys.readouterr()
    assert "29 runs each" in shown.out
    assert nights[3].name in shown.err


def test_no_times_are_an_error_of_one_line(nights, capsys):
    assert main(["history", "--runs", str(nights[0].parent), "--operator", "absent"]) == Exit.COULD_NOT_RUN
    assert "none of 30 runs has a time of such a cell" in capsys.readouterr().err
