"""Records as a DataFrame."""

import json

import msgspec

from reports import load_run
from reports.pages.columns import FACTS, documentation
from reports.pages.data_frame import to_frame
from reports.records.header import Source
from reports.records.measurements import Accuracy, DispatchFacts, ProcessTimes, Resources, Stages
from reports.records.status import Status
from suites.unit.reports.builders import GPU, HOST, make_cell, make_pair, make_record, make_run, make_timing, whole

COLUMNS = tuple(fact.name for fact in FACTS)


def test_a_row_per_cell_with_every_column():
    frame = to_frame(make_pair(1000.0, 500.0))
    assert tuple(frame.columns) == COLUMNS
    assert list(frame["median_s"]) == [1e-6, 5e-7]
    assert list(frame["cell_id"]) == ["lif_step-jnp-f32-4096-cpu", "lif_step-numba-f32-4096-cpu"]


def test_a_frame_is_made_of_a_run_its_path_or_its_records_with_times_in_seconds(tmp_path):
    records = [full(), make_record(make_cell(platform="cuda", size=2), None, FULL_RUN)]
    path = tmp_path / "run.jsonl"
    path.write_bytes(whole(records))
    run = load_run(path)
    frames = [to_frame(one) for one in (run, path, str(path), run.records)]
    assert all(frame.equals(frames[0]) for frame in frames)
    row = frames[0].iloc[0]
    assert (row["alone_s"], row["first_call_s"], row["roof_s"]) == (9e-8, 4e-3, 5e-9)
    assert json.loads(row["process_medians_s"]) == [1.05e-8] * 3
    assert not any(name.endswith(("_ns", "_ms")) for name in COLUMNS)


FULL_RUN = make_run(
    device=msgspec.structs.replace(GPU, l2_bytes=1, memory_bytes=1, sm_clock_mhz=1),
    host=msgspec.structs.replace(HOST, load=0.5, memory_bytes=2, machine="m"),
    source=Source(commit="c", dirty=False, project="p", digest="d"),
    selection={"operator": ["lif_step"]},
    peers={"numba": "NumPy 2.0"},
    part="1/9",
)
PROCESS = ProcessTimes(
    samples_ns=(10.0, 11.0),
    loops=4,
    program_ns=(45.0,),
    kernels_ns=(9.0,),
    alone_ns=(90.0,),
    alone_warm_ns=(60.0,),
    discarded=1,
    clock_mhz=1980.0,
    block=1,
)


def full(**changes):
    """A record that has every fact."""
    fields = {
        "cell": make_cell(platform="cuda", params={"cache": "hot"}),
        "run": FULL_RUN,
        "flops": 1,
        "dispatch": DispatchFacts(title="native", mode_title="in a loop", reference="numba", limits={"a": 1.5}),
        "stages": Stages(trace_ms=1.0, lower_ms=2.0, compile_ms=3.0, first_call_ms=4.0),
        "timing": make_timing(processes=[PROCESS] * 3),
        "accuracy": Accuracy(
            max_ulp=1.0, budget_used=0.25, worst_index=[3], got=1.0, truth=2.0, reference_budget_used=0.5
        ),
        "resources": Resources(host_bytes=1, device_bytes=2, energy_j=3.0),
        "roof_ns": 5.0,
        "roof_kind": "scattered reads of 4 bytes (95 G/s)",
        "remarks": "two passes by design",
        "gpu": "GPU-2",
        "hlo": ["ROOT %a = f32[4] custom-call(%b)"],
    }
    return make_record(**{**fields, **changes})


def test_every_column_is_filled_by_some_record():
    failed = make_record(make_cell(platform="cuda", size=1), run=FULL_RUN, status=Status.OOM, reason="too big")
    pair = [full(cell=make_cell(platform="cuda", backend=name, size=2), dispatch=None) for name in ("jnp", "numba")]
    apart = make_record(pair[1].cell, run=make_run(device=GPU, run_id="z"), timing=make_timing(method="wall"))
    other = make_record(pair[0].cell, run=make_run(device=GPU, run_id="z"), timing=make_timing(method="cupti"))
    frame = to_frame([full(), failed, *pair, apart, other])
    assert [name for name in COLUMNS if frame[name].isna().all()] == []


def test_columns_have_different_names_and_are_all_documented():
    assert len({*COLUMNS}) == len(COLUMNS)
    page = documentation()
    assert all(page.count(f"| `{name}` |") == 1 for name in COLUMNS)
