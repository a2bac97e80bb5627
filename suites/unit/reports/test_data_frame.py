"""Records as a DataFrame."""

import msgspec

from reports.pages.columns import FACTS, documentation
from reports.pages.data_frame import to_frame
from reports.records.header import Source
from reports.records.measurements import Accuracy, DispatchFacts, ProcessTimes, Resources, Stages
from reports.records.status import Status
from suites.unit.reports.builders import GPU, HOST, make_cell, make_pair, make_record, make_run, make_timing

COLUMNS = tuple(fact.name for fact in FACTS)


def test_a_row_per_cell_with_every_column():
    frame = to_frame(make_pair(1000.0, 500.0))
    assert tuple(frame.columns) == COLUMNS
    assert list(frame["median_ns"]) == [1000.0, 500.0]
    assert list(frame["cell_id"]) == ["lif_step-jnp-f32-4096-cpu", "lif_step-numba-f32-4096-cpu"]


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
