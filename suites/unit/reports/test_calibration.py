"""The command `calibrate`: noise of recorded runs, the table and the picture of simulated comparisons."""

import json
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from reports.cli import main
from reports.options import Exit
from reports.pages.calibration_table import calibration_panels, calibration_table
from reports.pages.recorded_noise import recorded_noise
from reports.render.curves import Curve, Panel, draw
from reports.render.layout import Style
from reports.statistics.calibration import Calibration
from suites.unit.reports.builders import GPU, make_cell, make_record, make_run, make_timing, whole


def noisy_run(path, count=6, seed=0, cells=4, **run):
    random = np.random.default_rng(seed)
    header = make_run(run_id=path.stem, **run)
    records = [
        make_record(
            make_cell(size=size, backend="jnp", platform=header.device.platform),
            timing=make_timing(across=np.exp(0.01 * random.standard_normal(count)).tolist()),
            run=header,
        )
        for size in range(1, cells + 1)
    ]
    path.write_bytes(whole(records))
    return records


FEW = ["--processes", "5", "--processes", "8", "--slowdown", "10", "--comparisons", "50"]


def test_the_command_shows_and_writes_both_curves(tmp_path, capsys):
    noisy_run(tmp_path / "a.jsonl")
    noisy_run(tmp_path / "b.jsonl", seed=1)
    names = [str(tmp_path / f"{name}.jsonl") for name in "ab"]
    written = ["--picture", str(tmp_path / "curves.svg"), "--export", str(tmp_path / "curves.json")]
    assert main(["calibrate", *names, *FEW, *written, "--format", "markdown"]) == Exit.FINE
    shown = capsys.readouterr().out
    assert "### False alarms and slowdowns found: cpu: Xeon" in shown
    assert "noise of 4 cells of a (6 processes), b (6 processes); seed 0" in shown
    rows = json.loads((tmp_path / "curves.json").read_text(encoding="utf-8"))
    assert [(row["processes"], row["slowdown"]) for row in rows] == [(5, 0.0), (5, 0.1), (8, 0.0), (8, 0.1)]
    assert rows[2]["slower"] <= 0.04
    assert rows[3]["slower"] >= 0.95
    assert ElementTree.parse(tmp_path / "curves.svg").getroot().tag.endswith("svg")


@pytest.mark.parametrize(
    ("others", "words"),
    [
        ({"count": 3}, "timed its cells in 3 processes; expected at least 4"),
        ({"device": GPU}, "the runs are of cpu and cuda: calibrate each platform alone"),
    ],
)
def test_runs_that_tell_nothing_are_one_line_and_exit_with_3(tmp_path, capsys, others, words):
    noisy_run(tmp_path / "a.jsonl")
    noisy_run(tmp_path / "b.jsonl", **others)
    names = [str(tmp_path / f"{name}.jsonl") for name in "ab"]
    assert main(["calibrate", *names, *FEW]) == Exit.COULD_NOT_RUN
    errors = capsys.readouterr().err
    assert words in errors
    assert errors.count("\n") == 1


@pytest.mark.parametrize("arguments", [["--slowdown", "-3"], ["--slowdown", "x"], ["--processes", "0"]])
def test_bad_arguments_are_refused(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        main(["calibrate", "latest", *arguments])
    assert caught.value.code == Exit.COULD_NOT_RUN
    assert "expected a" in capsys.readouterr().err


def test_only_cells_that_all_runs_timed_in_most_processes_count(tmp_path):
    one = noisy_run(tmp_path / "a.jsonl", cells=5)
    two = noisy_run(tmp_path / "b.jsonl", cells=3)
    short = make_record(one[0].cell, timing=make_timing(across=[1.0] * 4))
    noise = recorded_noise({"a": [short, *one[1:]], "b": two})
    assert (noise.cells, [run.shape for run in noise.runs]) == (2, [(2, 6), (2, 6)])
    assert noise.runs[1][0] == pytest.approx(np.log(two[1].timing.medians_ns))


def found(processes=8, slower=0, share=1.0):
    return Calibration(
        processes=processes, runs=200, slower=slower, faster=1, same=0.9, undecided=0.0, found={0.03: 0.5, 0.1: share}
    )


def test_what_misses_and_what_meets_the_targets_is_marked():
    table = calibration_table([found(4, slower=3, share=0.9), found()], "cpu", ())
    assert [[text.text for text in row.cells] for row in table.rows] == [
        ["4", "1.5", "0.5", "90", "0", "50", "90"],
        ["8", "0", "0.5", "90", "0", "50", "100"],
    ]
    assert [row.cells[1].style for row in table.rows] == [Style.BAD, Style.PLAIN]
    assert [row.cells[-1].style for row in table.rows] == [Style.PLAIN, Style.BEST]


def test_a_picture_has_a_curve_for_each_size_and_its_limit():
    picture = draw("a < b", calibration_panels([found(4), found(8)]))
    root = ElementTree.fromstring(picture)
    names = [node.text for node in root.iter() if node.tag.endswith("text")]
    assert {"a < b", "SLOWER", "FASTER", "3.0 %", "10 %", "4", "8"} <= {*names}
    assert picture.count("<polyline") == 4
    assert picture.count('class="limit"') == 2


def test_the_names_of_equal_curves_do_not_cover_each_other():
    root = ElementTree.fromstring(draw("t", [Panel("h", "b", [Curve(name, [(1.0, 2.0)]) for name in "xyz"])]))
    heights = sorted(float(node.get("y")) for node in root.iter() if node.text in {"x", "y", "z"})
    assert min(np.diff(heights)) >= 14
