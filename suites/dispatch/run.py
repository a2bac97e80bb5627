"""Runs the benchmark on one platform: builds, checks, calibrates and measures its paths."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

import jax
import numpy as np

from reports import Cell, CellResult, DispatchFacts, ProcessTimes, Status, Timing
from suites.dispatch.measure import choose_iterations, measure
from suites.dispatch.modes import Mode, Workload, WrongResultError
from suites.dispatch.path import PathUnavailableError
from suites.dispatch.platforms import PathSpec, Platform

SEED = 0

Progress = Callable[[str], None]


@dataclass(frozen=True)
class _Checked:
    """A path after its check: with a workload per mode, or with the reason why it has none."""

    spec: PathSpec
    status: Status
    reason: str | None = None
    workloads: Mapping[str, Workload] = field(default_factory=dict)


def run(
    platform: Platform,
    *,
    rounds: int,
    sample_ms: float,
    names: Collection[str] | None = None,
    progress: Progress = lambda _: None,
) -> list[CellResult]:
    """Measures the paths of a platform in all of its modes.

    Args:
        platform: The paths and modes.
        rounds: Samples of each cell.
        sample_ms: Milliseconds that one sample should take.
        names: The paths to measure; None for all. The others are recorded as skipped.
        progress: Gets a line about each step.

    Returns:
        One result per path and mode. Sample ``r`` of each belongs to round ``r``.

    Raises:
        RuntimeError: JAX has no device of this platform.
    """
    device = jax.devices(platform.name)[0]
    x, y = _inputs(platform.size, device)
    checked = []
    with jax.default_device(device):
        for spec in platform.paths:
            progress(f"checking {spec.name}")
            checked.append(_check(platform, spec, x, y, names))
        workloads = {
            mode.name: {one.spec.name: one.workloads[mode.name] for one in checked if mode.name in one.workloads}
            for mode in platform.modes
        }
        progress("choosing iterations")
        iterations = {
            mode: {path: choose_iterations(workload.run, sample_ms * 1e6) for path, workload in paths.items()}
            for mode, paths in workloads.items()
        }
        samples = measure(
            workloads, iterations, rounds, SEED, on_round=lambda done: progress(f"round {done} of {rounds}")
        )

    def timing(mode: str, path: str) -> Timing:
        calls = workloads[mode][path].calls
        return Timing(
            method=timing_method(calls),
            cache="hot",
            processes=[ProcessTimes(samples_ns=samples[mode][path], loops=iterations[mode][path] * calls)],
            stop=f"{rounds} interleaved rounds of about {sample_ms:g} ms per cell",
        )

    return [
        cell_result(
            platform,
            one.spec,
            mode,
            one.status,
            one.reason,
            timing(mode.name, one.spec.name) if one.workloads else None,
        )
        for one in checked
        for mode in platform.modes
        if one.spec.takes_part(mode)
    ]


def timing_method(calls: int) -> str:
    """Returns the method of times of a program that makes this many calls."""
    return f"wall, {calls} call{'s' if calls != 1 else ''} per program"


def cells_of(platform: Platform) -> list[Cell]:
    """Returns the cells of a platform: one for each path and mode."""
    return [
        cell_of(platform, spec, mode) for spec in platform.paths for mode in platform.modes if spec.takes_part(mode)
    ]


def cell_of(platform: Platform, spec: PathSpec, mode: Mode) -> Cell:
    """Returns the cell of a path in a mode."""
    return Cell(
        operator="add",
        operator_version=1,
        backend=spec.name,
        mode=mode.name,
        platform=platform.name,
        dtype="float32",
        size=platform.size,
    )


def cell_result(
    platform: Platform, spec: PathSpec, mode: Mode, status: Status, reason: str | None, timing: Timing | None
) -> CellResult:
    """Returns the result of a path in a mode, with its names and targets."""
    return CellResult(
        cell=cell_of(platform, spec, mode),
        shapes=[[platform.size]] * 2,
        dtypes=["float32"] * 2,
        seed=SEED,
        status=status,
        reason=reason,
        timing=timing,
        dispatch=DispatchFacts(
            title=spec.title,
            mode_title=mode.title,
            reference=platform.references[mode.name],
            limits=platform.limits(mode.name, spec.name),
        ),
    )


def _inputs(size: int, device: jax.Device) -> tuple[jax.Array, jax.Array]:
    # Positive values: the sums stay finite and normal after any number of calls, so all adds cost the same.
    generator = np.random.default_rng(SEED)
    x = generator.uniform(1, 2, size).astype(np.float32)
    y = generator.uniform(1e-3, 2e-3, size).astype(np.float32)
    return jax.device_put(x, device), jax.device_put(y, device)


def _check(platform: Platform, spec: PathSpec, x: jax.Array, y: jax.Array, names: Collection[str] | None) -> _Checked:
    """Builds a path and its workloads. If one of them is wrong, the path has none."""
    if names is not None and spec.name not in names:
        return _Checked(spec, Status.SKIPPED, "not selected")
    try:
        path = spec.build()
        built = {mode.name: mode.workload(path, x, y) for mode in platform.modes if spec.takes_part(mode)}
    except PathUnavailableError as error:
        return _Checked(spec, Status.SKIPPED, str(error))
    except WrongResultError as error:
        return _Checked(spec, Status.WRONG_VALUE, str(error))
    except Exception as error:  # the other paths can still be compared; the exit code shows the failure
        reason = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
        return _Checked(spec, Status.RUNTIME_ERROR, reason)
    return _Checked(spec, Status.PASSED, workloads=built)
