"""Baselines: one run per machine and platform, not too old."""

import datetime
import gzip

import msgspec
import pytest

from reports import RunNotFound, RunUnreadable, Status, load_run
from reports.gate.baselines import baseline_path, find_baseline, require_baselines, save_baseline
from suites.unit.reports.builders import CPU, GPU, HOST, make_cell, make_record, make_run, whole

MACHINE = "ab12cd34ef56ab78"
HERE = make_run(host=msgspec.structs.replace(HOST, machine=MACHINE))
NOW = datetime.datetime(2026, 11, 22, tzinfo=datetime.UTC)


def written(path, run=HERE, **changes):
    path.write_bytes(
        whole([make_record(make_cell(backend=backend), run=run, **changes) for backend in ("jnp", "numba")])
    )
    return path


def refusal(error, function, *arguments):
    with pytest.raises(error) as caught:
        function(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_run_becomes_the_baseline_of_its_machine(tmp_path):
    folder = tmp_path / "baselines"
    path = save_baseline(written(tmp_path / "a.jsonl"), folder)
    assert path == folder / f"{MACHINE}-cpu.jsonl.gz"
    assert [entry.name for entry in folder.iterdir()] == [path.name]
    found = find_baseline(folder, HERE, NOW, 30)
    assert [record.cell for record in found.records] == [
        record.cell for record in load_run(tmp_path / "a.jsonl").records
    ]
    require_baselines(folder, "cpu")


def test_a_later_baseline_replaces_it_and_equal_runs_give_equal_files(tmp_path):
    folder = tmp_path / "baselines"
    first = save_baseline(written(tmp_path / "a.jsonl"), folder).read_bytes()
    zipped = tmp_path / "b.jsonl.gz"
    zipped.write_bytes(gzip.compress((tmp_path / "a.jsonl").read_bytes()))
    assert save_baseline(zipped, folder).read_bytes() == first
    later = make_run(host=HERE.host, run_id="20261121T000000-aaaa")
    save_baseline(written(tmp_path / "c.jsonl", later), folder)
    assert find_baseline(folder, HERE, NOW, 30).run_id == later.run_id


def test_each_machine_platform_and_gpu_has_its_own(tmp_path):
    other = msgspec.structs.replace(HOST, machine="ffff")
    runs = [HERE, make_run(host=other), make_run(host=HERE.host, device=GPU)]
    runs.append(make_run(host=HERE.host, device=msgspec.structs.replace(GPU, uuid="GPU-2")))
    paths = [baseline_path(tmp_path, run) for run in runs]
    assert len({*paths}) == len(paths)
    assert [path.name for path in paths[1:3]] == ["ffff-cpu.jsonl.gz", f"{MACHINE}-cuda-GPU1.jsonl.gz"]
    odd = make_run(host=msgspec.structs.replace(HOST, machine="../../etc"), device=CPU)
    assert baseline_path(tmp_path, odd).parent == tmp_path


def test_without_a_baseline_the_way_to_one_is_said(tmp_path):
    folder = tmp_path / "baselines"
    said = refusal(RunNotFound, find_baseline, folder, HERE, NOW, 30)
    assert "no baseline for this machine in" in said
    assert "the folder is empty or missing" in said
    assert "kernel-bridge bench, then kernel-bridge gate --save latest" in said
    save_baseline(written(tmp_path / "a.jsonl", make_run(host=msgspec.structs.replace(HOST, machine="ffff"))), folder)
    assert "it has ffff-cpu.jsonl.gz" in refusal(RunNotFound, find_baseline, folder, HERE, NOW, 30)
    assert "no baseline for cuda in" in refusal(RunNotFound, require_baselines, folder, "cuda")


@pytest.mark.parametrize(
    ("started", "days", "words"),
    [
        ("2026-11-01T00:00:00+00:00", 30, None),
        ("2026-11-01T00:00:00+00:00", 20.5, "the baseline is 21 days old, and max-age-days is 20.5"),
        ("2026-11-22T12:00:00+00:00", 30, None),
        ("2026-11-25T00:00:00+00:00", 30, "was recorded 3 days after today. Set the clock"),
    ],
)
def test_the_age_of_a_baseline_counts(tmp_path, started, days, words):
    folder = tmp_path / "baselines"
    save_baseline(written(tmp_path / "a.jsonl", make_run(host=HERE.host, started=started)), folder)
    if words is None:
        assert find_baseline(folder, HERE, NOW, days)
    else:
        assert words in refusal(RunNotFound, find_baseline, folder, HERE, NOW, days)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"status": Status.WRONG_VALUE}, "is no baseline: lif_step-jnp-f32-4096-cpu is wrong"),
        ({"status": Status.SKIPPED}, "is no baseline: "),
        ({"median_ns": None}, "is no baseline: it has no times. Record one with bench."),
    ],
)
def test_a_run_that_is_not_whole_or_has_no_times_is_no_baseline(tmp_path, changes, words):
    assert words in refusal(RunUnreadable, save_baseline, written(tmp_path / "a.jsonl", **changes), tmp_path / "kept")
    assert not (tmp_path / "kept").exists()


def test_an_incomplete_run_is_no_baseline(tmp_path):
    path = written(tmp_path / "a.jsonl")
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    assert "is no baseline: INCOMPLETE" in refusal(RunUnreadable, save_baseline, path, tmp_path)


def test_a_run_of_an_older_version_does_not_name_its_machine(tmp_path):
    said = refusal(RunUnreadable, save_baseline, written(tmp_path / "a.jsonl", make_run()), tmp_path)
    assert "does not say on which machine it was recorded" in said
