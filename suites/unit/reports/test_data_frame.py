"""Records as a DataFrame."""

import json

from reports import load_run
from reports.pages.columns import FACTS, documentation
from reports.pages.data_frame import to_frame
from reports.records.measurements import ProcessTimes, Stages
from suites.unit.reports.builders import make_cell, make_pair, make_record, make_timing, whole

COLUMNS = tuple(fact.name for fact in FACTS)


def test_a_row_per_cell_with_every_column():
    frame = to_frame(make_pair(1000.0, 500.0))
    assert tuple(frame.columns) == COLUMNS
    assert list(frame["median_s"]) == [1e-6, 5e-7]
    assert list(frame["cell_id"]) == ["lif_step-jnp-f32-4096-cpu", "lif_step-numba-f32-4096-cpu"]


def test_a_frame_is_made_of_a_run_its_path_or_its_records_with_times_in_seconds(tmp_path):
    process = ProcessTimes(samples_ns=(10.0, 11.0), loops=4, program_ns=(45.0,), block=1)
    record = make_record(timing=make_timing(processes=[process] * 3), stages=Stages(first_call_ms=4.0), roof_ns=5.0,
                         roof_kind="copy, memory")  # fmt: skip
    path = tmp_path / "run.jsonl"
    path.write_bytes(whole([record, make_record(make_cell(size=2), None)]))
    run = load_run(path)
    frames = [to_frame(one) for one in (run, path, str(path), run.records)]
    assert all(frame.equals(frames[0]) for frame in frames)
    row = frames[0].iloc[0]
    assert (row["first_call_s"], row["roof_s"]) == (4e-3, 5e-9)
    assert json.loads(row["process_medians_s"]) == [1.05e-8] * 3
    assert json.loads(row["blocks"]) == [1, 1, 1]
    assert not any(name.endswith(("_ns", "_ms")) for name in COLUMNS)


def test_columns_have_different_names_and_are_all_documented():
    assert len({*COLUMNS}) == len(COLUMNS)
    page = documentation()
    assert all(page.count(f"| `{name}` |") == 1 for name in COLUMNS)
