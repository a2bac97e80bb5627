"""The dispatch benchmark: its arithmetic on made-up data, and one short run from end to end."""

from __future__ import annotations

import contextlib
import io
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from reports import Record, Status, judge, list_runs, load_run, read_run
from reports.options import Exit
from reports.records.store import RUNS_VARIABLE
from suites.dispatch import hlo, native
from suites.dispatch.measure import choose_iterations, measure, rotation
from suites.dispatch.modes import CHAIN, EAGER, JIT, LOOP, Mode, WrongResultError
from suites.dispatch.path import CallPath, PathUnavailableError, elementwise_add
from suites.dispatch.paths_cpu import CPU
from suites.dispatch.paths_cuda import CUDA
from suites.dispatch.platforms import Platform
from suites.sessions.commands.command_line import main
from suites.unit.reports.builders import make_cell, make_record, whole

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


@pytest.mark.parametrize(
    ("statuses", "code"),
    [
        ({"numba": Status.PASSED, "cpp": Status.PASSED}, Exit.FINE),
        ({"numba": Status.PASSED, "cpp": Status.SKIPPED}, Exit.FINE),
        ({"numba": Status.PASSED, "cpp": Status.WRONG_VALUE}, Exit.WRONG),
        ({"numba": Status.SKIPPED, "cpp": Status.PASSED}, Exit.COULD_NOT_RUN),
        ({"numba": Status.PASSED, "cpp": Status.RUNTIME_ERROR}, Exit.WRONG),
        ({"numba": Status.PASSED, "cpp": Status.OOM}, Exit.COULD_NOT_RUN),
    ],
)
def test_exit_code_depends_on_what_ran_and_not_on_how_fast(statuses, code, tmp_path):
    records = [make_record(make_cell(backend=name), status=status) for name, status in statuses.items()]
    (tmp_path / "a.jsonl").write_bytes(whole(records, optional=["cpp"]))
    assert judge(load_run(tmp_path / "a.jsonl")).exit is code


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


@pytest.mark.parametrize("platform", [CPU, CUDA], ids=lambda platform: platform.name)
def test_targets_and_references_name_paths_and_modes_that_exist(platform: Platform):
    paths = {spec.name for spec in platform.paths}
    modes = {mode.name for mode in platform.modes}
    assert set(platform.references) == modes
    assert {platform.required, *platform.references.values()} <= paths
    for target in platform.targets:
        assert {target.path, target.other} <= paths
        assert target.mode in modes
        assert platform.limits(target.mode, target.path)[target.other] == target.ratio
    assert sum(len(platform.limits(mode, path)) for mode in modes for path in paths) == len(platform.targets)


def test_a_missing_compiler_is_a_reason(monkeypatch, tmp_path):
    monkeypatch.setenv("CXX", "no-such-compiler -O3")
    with pytest.raises(PathUnavailableError, match=r"tried \$CXX, no-such-compiler"):
        native.build_cpu(tmp_path)


SELECTED = ("numba", "warp-native", "cpp", "callback", "jnp")


@dataclass(frozen=True)
class ShortRun:
    """A short run from the command line: its exit code, its output as JSON, its Markdown page and its records."""

    code: int
    rows: list[dict[str, Any]]
    page: str
    path: Path
    records: list[Record]

    def passed(self, path: str) -> list[Record]:
        """The records of a path that passed."""
        return [one for one in self.records if one.cell.backend == path and one.status is Status.PASSED]


@pytest.fixture(scope="module")
def short_run(tmp_path_factory):
    """Two rounds of the fast paths on the CPU."""
    folder = tmp_path_factory.mktemp("dispatch")
    page = folder / "page.md"
    arguments = ["dispatch", "--rounds", "2", "--sample-ms", "0.2", "--format", "json", "--summary", str(page)]
    for name in SELECTED:
        arguments += ["--backend", name]
    output = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(output):
        patch.setenv(RUNS_VARIABLE, str(folder / "runs"))
        code = main(arguments)
    (path,) = list_runs(folder / "runs")
    return ShortRun(code, json.loads(output.getvalue()), page.read_text(encoding="utf-8"), path, read_run(path))


def test_a_short_run_measures_every_selected_path_in_every_mode(short_run):
    assert short_run.code == Exit.FINE
    modes = {mode.name for mode in CPU.modes}
    for path in ("numba", "warp-native", "callback", "jnp"):
        records = short_run.passed(path)
        assert {record.cell.mode for record in records} == modes
        assert all(len(record.timing.samples_ns) == 2 for record in records)
    assert "eager: numba \\<= 1.20x jnp" in short_run.page
    assert [row["cell_id"] for row in short_run.rows] == [record.cell.id for record in short_run.records]


def test_a_path_that_is_not_selected_is_recorded_as_skipped_in_each_of_its_modes(short_run):
    skipped = {
        (record.cell.backend, record.cell.mode): record.reason
        for record in short_run.records
        if record.cell.backend not in SELECTED
    }
    modes = ("loop", "jit", "eager")
    others = [*(("operator", mode) for mode in modes), *(("warp", mode) for mode in modes), ("jnp-unjitted", "eager")]
    assert skipped == dict.fromkeys(others, "not selected")


def test_the_header_of_a_run_names_machine_libraries_and_compiler(short_run):
    header = short_run.records[0].run
    assert header.profile == "dispatch"
    assert header.host.cpu
    assert header.host.load is not None
    assert {"jaxlib", "python"} <= header.versions.keys()
    assert "CXX" in header.flags


def test_show_and_compare_read_a_run_like_any_other(short_run, tmp_path, capsys):
    assert main(["show", str(short_run.path), "--summary", str(tmp_path / "page.md")]) == Exit.FINE
    assert (tmp_path / "page.md").read_text(encoding="utf-8") == short_run.page
    capsys.readouterr()
    # Its rounds belong to one process, which decides nothing about another one.
    assert main(["compare", str(short_run.path), str(short_run.path), "--format", "csv"]) == Exit.COULD_NOT_RUN
    assert "add,float32,16,numba,loop,cpu" in capsys.readouterr().out


def test_a_folder_that_cannot_be_written_is_said_before_the_measurement(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv(RUNS_VARIABLE, str(tmp_path / "file" / "runs"))
    monkeypatch.setattr("suites.dispatch.dispatch_command.run", lambda *_, **__: pytest.fail("it was measured"))
    assert main(["dispatch"]) == Exit.COULD_NOT_RUN
    assert "cannot be written" in capsys.readouterr().err


def test_the_cpp_handler_is_measured_where_there_is_a_compiler(short_run):
    records = [record for record in short_run.records if record.cell.backend == "cpp"]
    if records[0].status is Status.SKIPPED:
        pytest.skip(records[0].reason)
    assert len(short_run.passed("cpp")) == len(CPU.modes)


def test_the_cuda_handler_compiles_without_a_gpu(tmp_path: Path):
    try:
        native.nvcc()
    except PathUnavailableError as reason:
        pytest.skip(str(reason))
    assert native.build_cuda("9.0", tmp_path).stat().st_size > 0
