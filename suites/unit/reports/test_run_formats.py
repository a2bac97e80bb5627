"""Runs in the formats of other tools: the tools themselves read what is written, where they are installed."""

import csv
import io
import json
import math
import subprocess
import sys
from xml.etree import ElementTree

import msgspec
import pytest

from reports.cli import main
from reports.formats.asv_results import write_asv_results
from reports.formats.junit_xml import junit_document
from reports.formats.pytest_benchmark_json import pytest_benchmark_document
from reports.options import Exit
from reports.records.cell_result import CellResult
from reports.records.header import Source
from reports.records.run_file import load_run
from reports.records.status import Status
from reports.records.store import find_run
from suites.unit.reports.builders import begun, make_cell, make_pair, make_record, make_run, make_timing, whole
from suites.unit.reports.test_job_summary import HOSTILE
from suites.unit.structure.house import PROJECT

RUNS = ("20261122T145809-aca4", "20261122T160144-a694")
COMMITS = ("a" * 40, "b" * 40)


def published(name):
    return find_run(name, PROJECT / "reports/published/epyc-2core")


def outcomes():
    """A cell of each kind of outcome."""
    run = make_run()
    failed = {"WRONG_VALUE": "812 ulp\nat [3]", "OOM": "no memory", "UNCHECKED": "no bound", "SKIPPED": "no float16"}
    records = [make_record(make_cell(backend="passed", params={"density": 0.5}), 1500.0, run)]
    records += [
        make_record(make_cell(backend=status.lower()), run=run, status=Status(status), reason=reason)
        for status, reason in failed.items()
    ]
    return records


def show(*arguments):
    return main(["show", *map(str, arguments)])


# pytest-benchmark


def test_pytest_benchmark_compares_two_exported_runs(tmp_path, capsys):
    files = [tmp_path / f"{name}.benchmark.json" for name in RUNS]
    for name, file in zip(RUNS, files, strict=True):
        assert show(published(name), "--export", file, "--operator", "add") == Exit.FINE
    capsys.readouterr()
    command = [sys.executable, "-m", "pytest_benchmark", "compare", *map(str, files), "--group-by=name"]
    command += ["--columns=min,max,mean,stddev,median,iqr,outliers,ops,rounds,iterations", "--csv=table.csv"]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert "Failed to load" not in found.stdout + found.stderr
    assert found.stdout.count("benchmark 'add-") == 8
    table = (tmp_path / "table.csv").read_text(encoding="utf-8")
    record = next(one for one in load_run(published(RUNS[1])).records if one.cell.id == "add-numba-f32-4096-cpu")
    medians = [float(row["median"]) for row in csv.DictReader(io.StringIO(table)) if "numba-f32-4096" in row["name"]]
    assert len(medians) == 2
    assert min(abs(median - record.timing.median_ns * 1e-9) for median in medians) < 1e-14


def test_a_round_is_a_process_and_with_one_process_a_sample():
    document = pytest_benchmark_document(make_pair(1000.0, 2000.0))
    stats = document["benchmarks"][1]["stats"]
    assert stats["rounds"] == 5
    assert stats["median"] == pytest.approx(2e-6)
    assert stats["data"] == pytest.approx([2e-6 * factor for factor in (1.01, 0.98, 1, 0.99, 1.02)])
    assert document["benchmarks"][1]["extra_info"]["ratio"] == pytest.approx(2)
    single = make_record(timing=make_timing(samples_ns=[1000.0, 2000.0, 3000.0]))
    assert pytest_benchmark_document([single])["benchmarks"][0]["stats"]["rounds"] == 3


def test_names_of_benchmarks_are_unique_with_parameters():
    records = [make_record(make_cell(params={"density": share})) for share in (0.1, 0.5)]
    names = {one["fullname"] for one in pytest_benchmark_document(records)["benchmarks"]}
    assert len(names) == 2


def test_a_run_without_times_has_no_benchmarks(tmp_path, capsys):
    (tmp_path / "a.jsonl").write_bytes(whole([make_record(median_ns=None)]))
    assert show(tmp_path / "a.jsonl", "--export", tmp_path / "a.benchmark.json") == Exit.COULD_NOT_RUN
    assert "this run has no times" in capsys.readouterr().err
    assert not (tmp_path / "a.benchmark.json").exists()


# JUnit


def test_junit_has_classes_reasons_and_counts(tmp_path, capsys):
    path = tmp_path / "20260101T000000-aaaa.jsonl"
    path.write_bytes(whole(outcomes(), optional=["skipped"]))
    assert show(path, "--export", tmp_path / "a.xml") == Exit.WRONG
    root = ElementTree.parse(tmp_path / "a.xml").getroot()
    assert {name: root.get(name) for name in ("tests", "failures", "errors", "skipped", "time")} == {
        "tests": "5", "failures": "1", "errors": "2", "skipped": "1", "time": "1.500",
    }  # fmt: skip
    (suite,) = root.findall("testsuite")
    assert suite.get("name") == "lif_step"
    cases = {case.get("classname"): case for case in suite.findall("testcase")}
    passed = cases["lif_step.passed"]
    assert passed.get("name") == "forward[lif_step-passed-f32-4096-cpu, density=0.5]"
    assert passed.get("time") == "0.000001500"
    assert len(passed) == 0
    failure = cases["lif_step.wrong_value"].find("failure")
    assert (failure.get("type"), failure.get("message")) == ("WRONG_VALUE", "WRONG_VALUE: 812 ulp at [3]")
    assert failure.text == "812 ulp\nat [3]"
    assert cases["lif_step.oom"].find("error").get("message") == "OOM: no memory"
    assert cases["lif_step.skipped"].find("skipped").get("message") == "SKIPPED: no float16"


def test_a_missing_cell_is_an_error(tmp_path):
    path = tmp_path / "20260101T000000-aaaa.jsonl"
    with begun(path, make_run(run_id="20260101T000000-aaaa"), [make_cell(), make_cell(backend="warp")]) as writer:
        writer.append(CellResult(**{name: getattr(make_record(), name) for name in CellResult.__struct_fields__}))
    run = load_run(path)
    root = ElementTree.fromstring(junit_document(run, run.records))
    assert (root.get("tests"), root.get("errors")) == ("2", "1")
    (case,) = root.findall("testsuite[@name='missing']/testcase")
    assert case.get("classname") == "lif_step.warp"


@pytest.mark.parametrize("name", [*HOSTILE, "\ufffe\x00\x1b", "]]>", "'\"&<"])
def test_junit_is_xml_whatever_the_names(tmp_path, name):
    records = [make_record(make_cell(operator=name, backend=name), status=Status.CRASHED, reason=name)]
    run = load_run(published(RUNS[0]))
    root = ElementTree.fromstring(junit_document(run, records))
    assert root.find("testsuite/testcase/failure") is not None


# asv


def exported(folder, *, runs=RUNS):
    for name, commit in zip(runs, COMMITS, strict=False):
        records = load_run(published(name)).records
        header = msgspec.structs.replace(records[0].run, source=Source(commit=commit, dirty=False))
        write_asv_results([msgspec.structs.replace(record, run=header) for record in records], folder)
    return folder


def test_asv_results_have_every_time(tmp_path):
    folder = exported(tmp_path / "results")
    (machine,) = (path for path in folder.iterdir() if path.is_dir())
    files = sorted(path.name for path in machine.iterdir())
    assert [name[:8] for name in files] == ["aaaaaaaa", "bbbbbbbb", "machine."]
    assert json.loads((machine / "machine.json").read_text())["machine"] == machine.name
    found = json.loads((machine / files[1]).read_text())
    benchmarks = json.loads((folder / "benchmarks.json").read_text())
    assert set(found["results"]) <= set(benchmarks)
    times = [time for row in found["results"].values() for time in row[0] if not math.isnan(time)]
    records = load_run(published(RUNS[1])).records
    assert sorted(times) == pytest.approx(sorted(record.timing.median_ns * 1e-9 for record in records))
    for name, row in found["results"].items():
        assert dict(zip(found["result_columns"], row, strict=True))["version"] == benchmarks[name]["version"]
        assert math.prod(map(len, row[1])) == len(row[0])


def test_asv_itself_shows_compares_and_publishes(tmp_path):
    pytest.importorskip("asv", reason="asv is not installed")
    repository = tmp_path / "repository"
    commits = []
    for words in (["init", "-q", str(repository)], *(["-C", str(repository), *_COMMIT, str(one)] for one in (1, 2))):
        subprocess.run(["git", *words], check=True)
        if words[0] == "-C":
            found = subprocess.run(["git", *words[:2], "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
            commits.append(found.stdout.strip())
    folder = tmp_path / "results"
    for name, commit in zip(RUNS, commits, strict=True):
        records = load_run(published(name)).records
        header = msgspec.structs.replace(records[0].run, source=Source(commit=commit, dirty=False))
        write_asv_results([msgspec.structs.replace(record, run=header) for record in records], folder)
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks/__init__.py").touch()
    configuration = {
        "version": 1, "project": "p", "project_url": "", "repo": str(repository), "branches": ["HEAD"],
        "results_dir": "results", "html_dir": "html", "benchmark_dir": "benchmarks", "environment_type": "virtualenv",
    }  # fmt: skip
    (tmp_path / "asv.conf.json").write_text(json.dumps(configuration))
    (machine,) = (path.name for path in folder.iterdir() if path.is_dir())

    def asv(*words):
        return subprocess.run(
            [sys.executable, "-m", "asv", *words], cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout

    assert "cpu.add.forward" in asv("show", commits[1][:8], "--machine", machine)
    assert "cpu.add.forward" in asv("compare", commits[0][:8], commits[1][:8], "--machine", machine)
    asv("publish")
    assert "cpu.add.forward" in (tmp_path / "html/index.json").read_text()


_COMMIT = ["-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-q", "--allow-empty", "-m"]


def test_a_second_run_adds_values_of_parameters_and_loses_none(tmp_path):
    run = make_run(source=Source(commit="c" * 40, dirty=False))
    for sizes in ((16, 4096), (256,)):
        write_asv_results([make_record(make_cell(size=size), run=run) for size in sizes], tmp_path)
    (benchmark,) = (
        one for one in json.loads((tmp_path / "benchmarks.json").read_text()).values() if isinstance(one, dict)
    )
    assert benchmark["params"][2] == ["16", "256", "4096"]


@pytest.mark.parametrize(
    ("source", "said"),
    [(Source(), "has no git commit"), (Source(commit="c" * 40, dirty=True), "had uncommitted changes")],
)
def test_asv_needs_a_commit(tmp_path, capsys, source, said):
    (tmp_path / "a.jsonl").write_bytes(whole([make_record(run=make_run(source=source))]))
    assert show(tmp_path / "a.jsonl", "--export", f"{tmp_path}/results/") == Exit.COULD_NOT_RUN
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("name", [*HOSTILE, "../../x", "..", "/etc/x"])
def test_names_leave_no_folder(tmp_path, name):
    host = msgspec.structs.replace(make_run().host, machine=name)
    run = make_run(source=Source(commit=name, dirty=False), host=host, versions={"jax": name})
    write_asv_results([make_record(make_cell(operator=name, mode=name), run=run)], tmp_path / "results")
    assert [path.name for path in tmp_path.iterdir()] == ["results"]
    assert len(list((tmp_path / "results").rglob("*.json"))) == 3


# The option


def test_an_unknown_ending_names_the_known_ones(tmp_path, capsys):
    (tmp_path / "a.jsonl").write_bytes(whole(make_pair(1.0, 2.0)))
    assert show(tmp_path / "a.jsonl", "--export", tmp_path / "a.txt") == Exit.COULD_NOT_RUN
    assert ".csv, .json, .parquet" in capsys.readouterr().err


def test_a_file_that_cannot_be_written_is_an_error_of_one_line(tmp_path, capsys):
    (tmp_path / "a.jsonl").write_bytes(whole(make_pair(1000.0, 2000.0)))
    for name in ("none/a.xml", "none/a.benchmark.json", "a.jsonl/results/"):
        assert show(tmp_path / "a.jsonl", "--export", f"{tmp_path}/{name}") == Exit.COULD_NOT_RUN
        assert "cannot be written" in capsys.readouterr().err


def test_other_commands_do_not_take_formats_of_runs(tmp_path, capsys):
    (tmp_path / "a.jsonl").write_bytes(whole(make_pair(1000.0, 2000.0)))
    assert main(["history", str(tmp_path / "a.jsonl"), "--export", str(tmp_path / "a.xml")]) == Exit.COULD_NOT_RUN
    assert "got the ending '.xml'" in capsys.readouterr().err
