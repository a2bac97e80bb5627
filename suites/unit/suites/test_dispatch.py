"""The dispatch benchmark: its arithmetic on made-up data, and one short run from end to end."""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from reports.render.markdown import render as as_markdown
from reports.render.terminal import render as as_text
from suites.commands.command_line import main
from suites.dispatch import hlo, native, report
from suites.dispatch.measure import choose_iterations, measure, rotation
from suites.dispatch.modes import CHAIN, EAGER, JIT, LOOP, Mode, WrongResultError
from suites.dispatch.path import Path as CallPath
from suites.dispatch.path import PathUnavailableError, elementwise_add
from suites.dispatch.paths_cpu import CPU
from suites.dispatch.paths_cuda import CUDA
from suites.dispatch.platforms import Platform
from suites.dispatch.record import Cell, ModeRecord, PathRecord, Run, Status, exit_code
from suites.dispatch.targets import Spread, Target, Verdict, ratios

HLO = """\
%fused (p: f32[16]) -> f32[16] {
  %p = f32[16]{0} parameter(0)
  ROOT %add.1 = f32[16]{0} add(%p, %p)
}

%body (t: (f32[16])) -> (f32[16]) {
  %c = f32[16]{0} custom-call(%x), custom_call_target="mine"
  %f = f32[16]{0} fusion(%c), kind=kLoop, calls=%fused
  ROOT %r = (f32[16]{0}) tuple(%f)
}

%cond (t: (f32[16])) -> pred[] {
  ROOT %b = pred[] constant(true)
}

ENTRY %main (x: f32[16]) -> (f32[16]) {
  %hoisted = f32[16]{0} custom-call(%x), custom_call_target="other"
  ROOT %w = (f32[16]{0}) while(%hoisted), condition=%cond, body=%body
}
"""


class FakeClock:
    """A clock that only work advances."""

    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        return self.now_ns

    def work(self, ns_per_iteration: int) -> Callable[[int], None]:
        """A function that takes this long for each iteration."""

        def run(iterations: int) -> None:
            self.now_ns += ns_per_iteration * iterations

        return run


@dataclass(frozen=True)
class FakeWorkload:
    """A workload whose cost is known."""

    run: Callable[[int], None]
    calls: int = 1


def made_up_run(**samples_ns: list[float]) -> Run:
    """A run with one mode, ``loop``, whose reference is ``cpp``."""
    return Run(
        platform="cpu",
        started="2025-01-01T00:00:00+00:00",
        elements=16,
        rounds=3,
        sample_ms=10.0,
        seed=0,
        host={"cpu": "some | cpu"},
        versions={"jax": "1"},
        modes=[ModeRecord("loop", "in a loop", "cpp")],
        paths=[PathRecord(name, name.upper(), Status.PASSED) for name in samples_ns]
        + [PathRecord("warp", "WARP", Status.SKIPPED, "Warp is not installed")],
        cells={"loop": {name: Cell(10, 100, values) for name, values in samples_ns.items()}},
        targets=[Target("loop", "numba", "cpp", 1.0), Target("loop", "numba", "warp", 0.01)],
    )


def test_each_name_takes_each_position_once_within_a_cycle_of_rounds():
    names = ["a", "b", "c", "d"]
    for cycle in range(3):
        orders = [rotation(names, 4 * cycle + shift, seed=7) for shift in range(4)]
        for position in zip(*orders, strict=True):
            assert sorted(position) == names


def test_the_order_depends_on_seed_and_round_alone():
    names = ["a", "b", "c", "d", "e"]
    assert [rotation(names, r, 1) for r in range(20)] == [rotation(names, r, 1) for r in range(20)]
    assert [rotation(names, r, 1) for r in range(20)] != [rotation(names, r, 2) for r in range(20)]


def test_neighbours_change_from_cycle_to_cycle():
    names = list("abcdef")
    followers = {cycle: "".join(rotation(names, 6 * cycle, 0)) for cycle in range(8)}
    assert len(set(followers.values())) > 1


@pytest.mark.parametrize(("cost_ns", "expected"), [(100, 100_000), (10_000_000, 1), (50_000_000, 1), (3_000_000, 3)])
def test_iterations_fill_the_target_and_are_at_least_one(cost_ns, expected):
    clock = FakeClock()
    assert choose_iterations(clock.work(cost_ns), target_ns=10_000_000, clock=clock) == expected


def test_one_interruption_does_not_change_the_number_of_iterations():
    clock = FakeClock()
    steady = clock.work(1000)
    interrupted = iter([True])

    def run(iterations: int) -> None:
        steady(iterations)
        if iterations > 2000 and next(interrupted, False):
            clock.now_ns += 5_000_000

    assert choose_iterations(run, target_ns=10_000_000, clock=clock) == 10_000


def test_samples_are_nanoseconds_per_call_by_round():
    clock = FakeClock()
    workloads = {"chain": {"a": FakeWorkload(clock.work(500), calls=50), "b": FakeWorkload(clock.work(30))}}
    samples = measure(workloads, {"chain": {"a": 4, "b": 7}}, rounds=3, seed=0, clock=clock)
    assert samples == {"chain": {"a": [10.0] * 3, "b": [30.0] * 3}}


def test_every_workload_runs_once_a_round_next_to_those_of_its_mode():
    log: list[tuple[str, str]] = []

    def workload(mode: str, path: str) -> FakeWorkload:
        return FakeWorkload(lambda _: log.append((mode, path)))

    names = {"loop": "abc", "jit": "abc", "eager": "ab"}
    workloads = {mode: {path: workload(mode, path) for path in paths} for mode, paths in names.items()}
    measure(workloads, {mode: dict.fromkeys(paths, 1) for mode, paths in names.items()}, rounds=5, seed=0)
    assert Counter(log) == {(mode, path): 5 for mode, paths in names.items() for path in paths}
    switches = sum(before[0] != after[0] for before, after in pairwise(log))
    assert switches <= 5 * len(names)


def test_a_ratio_compares_samples_of_one_round():
    # The machine is three times slower in the second round; the ratio does not see it.
    assert ratios([10.0, 30.0, 10.0], [20.0, 60.0, 20.0]) == [0.5, 0.5, 0.5]
    with pytest.raises(ValueError, match="zip"):
        ratios([1.0], [1.0, 2.0])


def test_spread_is_median_and_20th_and_80th_percentile():
    assert Spread.of([5, 1, 2, 4, 3, 6]) == Spread(3.5, 2.0, 5.0)


@pytest.mark.parametrize(
    ("ratio", "verdict"),
    [
        (Spread(1.0, 0.9, 1.3), Verdict.MET),
        (Spread(1.001, 0.5, 1.1), Verdict.MISSED),
        (None, Verdict.NOT_MEASURED),
    ],
)
def test_a_target_is_judged_by_the_median_ratio(ratio, verdict):
    assert Target("loop", "numba", "cpp", 1.0).verdict(ratio) is verdict


def test_targets_read_aloud():
    assert str(Target("eager", "numba", "jnp", 1.2)) == "eager: numba <= 1.20x jnp"
    assert str(Target("loop", "numba", "warp", 0.01)) == "loop: numba at least 100x below warp"


@pytest.mark.parametrize(
    ("statuses", "code"),
    [
        ({"numba": Status.PASSED, "cpp": Status.PASSED}, 0),
        ({"numba": Status.PASSED, "cpp": Status.SKIPPED}, 0),
        ({"numba": Status.PASSED, "cpp": Status.WRONG_VALUE}, 1),
        ({"numba": Status.SKIPPED, "cpp": Status.PASSED}, 3),
        ({"numba": Status.PASSED, "cpp": Status.RUNTIME_ERROR}, 3),
    ],
)
def test_exit_code_depends_on_what_ran_and_not_on_how_fast(statuses, code):
    assert exit_code([PathRecord(name, name, status) for name, status in statuses.items()], "numba") == code


def test_instructions_of_a_loop_include_what_its_body_calls_and_nothing_else():
    assert hlo.count_in_loops(HLO, 'custom_call_target="mine"') == 1
    assert hlo.count_in_loops(HLO, elementwise_add(16)) == 1
    assert hlo.count_in_loops(HLO, 'custom_call_target="other"') == 0
    assert hlo.count(HLO, "custom-call") == 2


def test_a_call_that_xla_hoists_out_of_the_loop_is_not_timed():
    x = jnp.ones(16, jnp.float32)
    constant = CallPath(op=lambda carry, y: y + y, eager=jnp.add, marker=elementwise_add(16))
    with pytest.raises(WrongResultError, match="loop: "):
        LOOP.workload(constant, x, x)


@pytest.mark.parametrize("mode", [LOOP, CHAIN, EAGER, JIT], ids=lambda mode: mode.name)
def test_a_wrong_result_is_not_timed(mode: Mode):
    def nearly_add(x: jax.Array, y: jax.Array) -> jax.Array:
        return (x + y).at[0].multiply(1.0000002)

    x, y = jnp.arange(1.0, 17.0, dtype=jnp.float32), jnp.full(16, 0.5, jnp.float32)
    with pytest.raises(WrongResultError, match=f"{mode.name}: got float32"):
        mode.workload(CallPath(nearly_add, nearly_add, marker=elementwise_add(16)), x, y)


def test_json_carries_all_samples_and_the_judged_targets():
    document = json.loads(made_up_run(numba=[8.0, 9.0, 30.0], cpp=[10.0, 10.0, 30.0]).to_json())
    assert document["cells"]["loop"]["numba"] == {"iterations": 10, "calls": 100, "samples_ns": [8.0, 9.0, 30.0]}
    first, second = document["targets"]
    assert first["verdict"] == "met"
    assert first["ratio"]["median"] == pytest.approx(0.9)
    assert second["verdict"] == "not measured"


def test_pages_show_times_ratios_targets_and_what_is_missing():
    run = made_up_run(numba=[8000.0, 9000.0, 30000.0], cpp=[10000.0, 10000.0, 30000.0])
    shown = as_markdown(report.tables(run), 200)
    assert re.search(r"\| NUMBA +\| +9.00 \| +8.40-21.6 \|", shown)
    assert re.search(r"\| NUMBA +\| +0.900 \| +0.840-0.960 \|", shown)
    assert re.search(r"\| loop: numba .<= 1.00x cpp +\| +0.900 \(0.840-0.960\) \| +met \|", shown)
    assert re.search(r"\| WARP +\| SKIPPED \| Warp is not installed \|", shown)
    assert list(report.frame(run)["median_us"]) == [9.0, 10.0]


@pytest.mark.parametrize("width", [80, 200])
def test_pages_fit_the_terminal(width):
    run = made_up_run(numba=[8000.0, 9000.0, 30000.0], cpp=[10000.0, 10000.0, 30000.0])
    assert max(map(len, as_text(report.tables(run), width).splitlines())) <= width


@pytest.mark.parametrize("platform", [CPU, CUDA], ids=lambda platform: platform.name)
def test_targets_and_references_name_paths_and_modes_that_exist(platform: Platform):
    paths = {spec.name for spec in platform.paths}
    modes = {mode.name for mode in platform.modes}
    assert set(platform.references) == modes
    assert {platform.required, *platform.references.values()} <= paths
    for target in platform.targets:
        assert {target.path, target.reference} <= paths
        assert target.mode in modes


def test_a_missing_compiler_is_a_reason(monkeypatch, tmp_path):
    monkeypatch.setenv("CXX", "no-such-compiler -O3")
    with pytest.raises(PathUnavailableError, match=r"tried \$CXX, no-such-compiler"):
        native.build_cpu(tmp_path)


@pytest.fixture(scope="module")
def short_run(tmp_path_factory):
    """Exit code, JSON and page of one round of the fast paths on the CPU."""
    page = tmp_path_factory.mktemp("dispatch") / "page.md"
    arguments = ["dispatch", "--rounds", "1", "--sample-ms", "0.2", "--format", "json", "--summary", str(page)]
    for name in ("numba", "warp-native", "cpp", "callback", "jnp"):
        arguments += ["--backend", name]
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        code = main(arguments)
    return code, json.loads(output.getvalue()), page.read_text(encoding="utf-8")


def test_a_short_run_measures_every_selected_path_in_every_mode(short_run):
    code, document, page = short_run
    assert code == 0
    status = {path["name"]: path["status"] for path in document["paths"]}
    assert {status[name] for name in ("numba", "warp-native", "callback", "jnp")} == {"PASSED"}
    (warp,) = (path for path in document["paths"] if path["name"] == "warp")
    assert warp == {"name": "warp", "title": "warp.jax_kernel", "status": "SKIPPED", "reason": "not selected"}
    for mode in ("loop", "jit", "eager"):
        assert {"numba", "warp-native", "callback", "jnp"} <= set(document["cells"][mode])
        assert all(len(cell["samples_ns"]) == 1 for cell in document["cells"][mode].values())
    verdicts = {target["text"]: target["verdict"] for target in document["targets"]}
    assert verdicts["loop: numba at least 100x below warp"] == "not measured"
    assert verdicts["eager: warp-native <= 1.20x jnp"] in ("met", "missed")
    assert "eager: numba \\<= 1.20x jnp" in page
    assert document["host"]["cpu"]
    assert document["versions"]["jaxlib"]


def test_the_cpp_handler_is_measured_where_there_is_a_compiler(short_run):
    _, document, _ = short_run
    (record,) = (path for path in document["paths"] if path["name"] == "cpp")
    if record["status"] == "SKIPPED":
        pytest.skip(record["reason"])
    assert record["status"] == "PASSED"
    assert document["cells"]["loop"]["cpp"]["samples_ns"]


def test_the_cuda_handler_compiles_without_a_gpu(tmp_path: Path):
    try:
        native.nvcc()
    except PathUnavailableError as reason:
        pytest.skip(str(reason))
    assert native.build_cuda("9.0", tmp_path).stat().st_size > 0
