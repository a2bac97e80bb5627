"""The pictures and the table of the README: made from published runs, current, and stale when a run is added."""

import gzip
import json
import xml.etree.ElementTree as ET

import pytest

from reports.web import readme
from reports.web.charts import svg_of
from reports.web.readme import BEGIN, END, newest_runs, picture
from suites.unit.docs.pages import PROJECT
from suites.unit.reports.builders import GPU, whole
from suites.unit.reports.page_runs import call_records, run_of, timed_records


def publish(project, folder, name, records):
    path = project / "reports" / "published" / folder / f"{name}.jsonl.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(whole(records)))


@pytest.fixture
def project(tmp_path):
    """A checkout with published runs of a CPU and a GPU, and a README without a table yet."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text(f"# Title\n\n{BEGIN}\n{END}\n\nMore.\n", encoding="utf-8")
    publish(tmp_path, "cpu", "a", timed_records(run_of("times", 1)))
    publish(tmp_path, "cpu", "b", call_records(run_of("calls", 1)))
    publish(tmp_path, "gpu", "c", timed_records(run_of("times", 2, device=GPU, run_id="gpu")))
    return tmp_path


def sketched(spec):
    """A picture as the library draws one, as far as it matters here."""
    return f'<svg class="marks" viewBox="0 0 9 9"><path fill="#0072b2" d="{len(json.dumps(spec))}"/></svg>'


def test_everything_is_made_once_and_a_newer_run_makes_it_stale(project, monkeypatch, capsys):
    monkeypatch.setattr(readme, "svg_of", sketched)
    names = ["docs/ratios.svg", "README.md"]
    assert readme.main(["--check"], project) == 1
    assert [line.split()[0] for line in capsys.readouterr().err.splitlines()] == names
    assert readme.main([], project) == 0
    assert capsys.readouterr().out.split() == names
    assert readme.main(["--check"], project) == 0
    text = (project / "README.md").read_text(encoding="utf-8")
    assert text.startswith("# Title")
    assert text.endswith("More.\n")
    assert "| Xeon | `numba` |" in text
    assert "| NVIDIA H200 | `numba` |" in text
    publish(project, "cpu", "d", timed_records(run_of("times", 3), slower=3))
    assert readme.stale_files(project) == names
    assert readme.main([], project) == 0
    publish(project, "cpu", "e", timed_records(run_of("times", 0), slower=9))  # an older run
    assert readme.stale_files(project) == []


def test_the_library_draws_the_published_picture():
    pytest.importorskip("vl_convert", reason="no vl-convert-python: install the extra `report`")
    root = ET.fromstring(svg_of(picture(newest_runs(PROJECT / "reports" / "published"))))
    assert len([one for one in root.iter() if one.get("aria-roledescription") == "point"]) >= 5
