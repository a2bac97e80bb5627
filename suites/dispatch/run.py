"""A platform in, a :class:`~suites.dispatch.record.Run` out: build, check, calibrate, measure."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import UTC, datetime

import jax
import numpy as np

from suites.dispatch import environment, native
from suites.dispatch.measure import choose_iterations, measure
from suites.dispatch.modes import Workload, WrongResultError
from suites.dispatch.path import PathSpec, PathUnavailableError
from suites.dispatch.platforms import Platform
from suites.dispatch.record import Cell, ModeRecord, PathRecord, Run, Status

SEED = 0

Progress = Callable[[str], None]


def run(
    platform: Platform,
    *,
    rounds: int,
    sample_ms: float,
    names: Collection[str] | None = None,
    progress: Progress = lambda _: None,
) -> Run:
    """Measures a platform's paths in all of its modes.

    Args:
        platform: What to compare.
        rounds: Samples of each cell.
        sample_ms: Milliseconds that one measurement should take.
        names: The paths to compare; None for all. The others are recorded as skipped.
        progress: Is told what is happening.

    Raises:
        RuntimeError: JAX has no device of this platform.
    """
    device = jax.devices(platform.name)[0]
    host = environment.host(device)
    started = datetime.now(UTC).isoformat(timespec="seconds")
    x, y = _inputs(platform.size, device)
    records: list[PathRecord] = []
    workloads: dict[str, dict[str, Workload]] = {mode.name: {} for mode in platform.modes}
    with jax.default_device(device):
        for spec in platform.paths:
            progress(f"checking {spec.name}")
            record, built = _check(platform, spec, x, y, names)
            records.append(record)
            for mode, workload in built.items():
                workloads[mode][spec.name] = workload
        progress("choosing iterations")
        iterations = {
            mode: {path: choose_iterations(workload.run, sample_ms * 1e6) for path, workload in paths.items()}
            for mode, paths in workloads.items()
        }
        samples = measure(
            workloads, iterations, rounds, SEED, on_round=lambda done: progress(f"round {done} of {rounds}")
        )
    cells = {
        mode: {
            path: Cell(iterations[mode][path], workloads[mode][path].calls, samples_ns)
            for path, samples_ns in paths.items()
        }
        for mode, paths in samples.items()
    }
    return Run(
        platform=platform.name,
        started=started,
        elements=platform.size,
        rounds=rounds,
        sample_ms=sample_ms,
        seed=SEED,
        host=host,
        versions=environment.versions(native.compiler_versions(platform.name)),
        modes=[ModeRecord(mode.name, mode.title, platform.references[mode.name]) for mode in platform.modes],
        paths=records,
        cells=cells,
        targets=list(platform.targets),
    )


def _inputs(size: int, device: jax.Device) -> tuple[jax.Array, jax.Array]:
    # Positive values keep the carried sums of any number of calls finite and normal, so that all adds cost the same.
    generator = np.random.default_rng(SEED)
    x = generator.uniform(1, 2, size).astype(np.float32)
    y = generator.uniform(1e-3, 2e-3, size).astype(np.float32)
    return jax.device_put(x, device), jax.device_put(y, device)


def _check(
    platform: Platform, spec: PathSpec, x: jax.Array, y: jax.Array, names: Collection[str] | None
) -> tuple[PathRecord, dict[str, Workload]]:
    """A path's record and its workloads by mode: all of them, or none if any is not right."""
    if names is not None and spec.name not in names:
        return PathRecord(spec.name, spec.title, Status.SKIPPED, "not selected"), {}
    try:
        path = spec.build()
        built = {mode.name: mode.workload(path, x, y) for mode in platform.modes if path.takes_part(mode.name)}
    except PathUnavailableError as error:
        return PathRecord(spec.name, spec.title, Status.SKIPPED, str(error)), {}
    except WrongResultError as error:
        return PathRecord(spec.name, spec.title, Status.WRONG_VALUE, str(error)), {}
    except Exception as error:  # the other paths can still be compared; the exit code tells
        reason = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
        return PathRecord(spec.name, spec.title, Status.RUNTIME_ERROR, reason), {}
    return PathRecord(spec.name, spec.title, Status.PASSED), built
