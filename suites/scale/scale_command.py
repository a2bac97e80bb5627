"""Implements ``scale``: starts the processes that measure scaling, and shows efficiencies as a table."""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from reports.options import Exit
from reports.render.layout import Column, Row, Table, Text
from reports.render.page import Page, show
from suites.bench.parent_process import lifeline
from suites.bench.usable_cores import usable_cores
from suites.bench.visible_gpus import visible_gpus
from suites.cells.selection import SelectionError
from suites.scale.scaling_process import ScalingPlan, ScalingResult, ScalingSeries

BACKENDS = {"cpu": "numba", "cuda": "numba_cuda"}
"""The backend on each platform, unless another one is named."""

NEURONS = {"cpu": 20_000, "cuda": 1_000_000}
"""How many neurons there are on each platform, unless another number is given."""

_LEAVING_S = 5.0
"""How long the processes may take to end when everything is measured."""

_ROOT = Path(__file__).parents[2]


def scale(options: argparse.Namespace) -> Exit:
    """Measures and shows what the options of the command say.

    Returns:
        FINE if everything was measured, WRONG if a result was wrong.

    Raises:
        SelectionError: The options do not fit each other or this machine, or a process failed.
    """
    result = measured(plans(options), options.timeout)
    if result.error is not None:
        print(f"{options.prog}: {result.error}", file=sys.stderr)
        return Exit.WRONG if result.is_wrong else Exit.COULD_NOT_RUN
    show(Page.of([scaling_table(result, options.processes, options.synapses)]), options)
    return Exit.FINE


def plans(options: argparse.Namespace) -> list[ScalingPlan]:
    """Returns what each process of the group does.

    Raises:
        SelectionError: The devices cannot be divided among the processes, or the network has no kernels of the backend.
    """
    backend = options.backend or BACKENDS[options.device]
    _require_kernels(backend, options.device)
    counts = tuple(sorted(set(options.devices or ())))
    processes = options.processes
    most = max(counts, default=0)
    if options.device == "cpu":
        devices = most or max(processes, len(usable_cores()))
        cpu_devices = -(-devices // processes)
    else:
        cpu_devices = 1
        if len(visible_gpus()) < max(processes, most):
            raise SelectionError(
                f"--processes {processes}, --devices {most}: there are {len(visible_gpus())} GPUs. Take fewer."
            )
    first = ScalingPlan(
        device=options.device,
        backend=backend,
        counts=counts,
        neurons=options.neurons or NEURONS[options.device],
        synapses=options.synapses,
        steps=options.steps,
        rounds=options.rounds,
        processes=processes,
        process=0,
        coordinator=f"localhost:{_free_port()}",
        cpu_devices=cpu_devices,
        output="",
    )
    return [msgspec.structs.replace(first, process=number) for number in range(processes)]


def _require_kernels(backend: str, device: str) -> None:
    from suites.backends.backend import Backend
    from suites.scale.spiking_network import KERNELS

    known = {
        each.id: each
        for each in Backend
        if all(each in (Backend.JNP, *operator.kernels) and device in each.platforms for operator in KERNELS)
    }
    if backend not in known:
        raise SelectionError(
            f"--backend {backend}: the network has no kernels of it on {device}. Known: {', '.join(known)}."
        )
    for operator in KERNELS:
        reason = operator.unsupported(known[backend], device, "float32")
        if reason is not None:
            raise SelectionError(f"--backend {backend}: {reason}.")


def measured(group: Sequence[ScalingPlan], timeout_s: float) -> ScalingResult:
    """Runs the processes of a group; returns what the first one measured.

    Args:
        group: What each process does.
        timeout_s: Seconds after which all of them are ended.

    Raises:
        SelectionError: A process failed, or took too long. The others are ended.
    """
    with tempfile.TemporaryDirectory(prefix="kernel-bridge-") as scratch, lifeline() as stdin:
        output = Path(scratch, "result.json")
        running: list[subprocess.Popen[bytes]] = []
        logs = [Path(scratch, f"{plan.process}.txt") for plan in group]
        try:
            for plan, log in zip(group, logs, strict=True):
                text = msgspec.json.encode(msgspec.structs.replace(plan, output=str(output))).decode()
                command = [sys.executable, "-P", "-m", "suites.scale.scaling_process", text]
                with log.open("wb") as stream:
                    running.append(
                        subprocess.Popen(command, env=_variables(), stdin=stdin, stdout=stream, stderr=stream)
                    )
            _wait(running, logs, output, timeout_s)
        finally:
            for process in running:
                process.kill()
                process.wait()
        return msgspec.json.decode(output.read_bytes(), type=ScalingResult)


def _wait(running: Sequence[subprocess.Popen[bytes]], logs: Sequence[Path], output: Path, timeout_s: float) -> None:
    """Waits for all processes. One that failed ends the wait at once: the others would wait for it in vain."""
    end, is_measured = time.monotonic() + timeout_s, False
    while True:
        codes = [process.poll() for process in running]
        if all(code == 0 for code in codes):
            return
        if output.exists() and not is_measured:
            is_measured, end = True, time.monotonic() + _LEAVING_S
        for number, code in enumerate(codes):
            if code and not is_measured:
                lines = logs[number].read_text("utf-8", errors="replace").strip().splitlines()
                raise SelectionError(f"process {number} ended with exit code {code}: {(lines or ['no output'])[-1]}")
        if time.monotonic() > end:
            if is_measured:
                return
            raise SelectionError(f"the processes took longer than {timeout_s:g} s. Give --timeout more.")
        time.sleep(0.05)


def scaling_table(result: ScalingResult, processes: int, synapses: int) -> Table:
    """Returns the table: the time of a step on each number of devices, and the efficiency.

    The efficiency of n devices is ``t1 / tn`` for weak scaling, where the network grows with the devices, and
    ``t1 / (n * tn)`` for strong scaling, where it does not. It is the median of the ratios of all rounds.
    """
    by_key = {(series.mode, series.devices): series for series in result.series}
    columns = (
        Column("scaling", align="left"), Column("devices"), Column("neurons"), Column("ms/step"), Column("efficiency"),
        Column("rounds", drop=1),
    )  # fmt: skip
    rows = [
        Row((
            Text(series.mode), Text(str(series.devices)), Text(f"{series.neurons:,}"),
            Text(f"{statistics.median(series.steps_ms):.4g}"), Text(_efficiency(series, by_key.get((series.mode, 1)))),
            Text(str(len(series.steps_ms))),
        ))
        for series in result.series
    ]  # fmt: skip
    versions = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    notes = (
        f"{result.kind}, {processes} {'process' if processes == 1 else 'processes'}, {versions}; "
        f"2 x {synapses} synapses a neuron",
        "results: the same bits on every number of devices, checked before the times were taken",
        "efficiency: the median of all rounds, and the lowest and the highest",
    )
    return Table("Scaling of a spiking network", columns, tuple(rows), notes)


def _efficiency(series: ScalingSeries, alone: ScalingSeries | None) -> str:
    if alone is None:
        return "-"
    share = series.devices if series.mode == "strong" else 1
    ratios = [one / (share * many) for one, many in zip(alone.steps_ms, series.steps_ms, strict=True)]
    return f"{statistics.median(ratios):.1%} ({min(ratios):.1%} to {max(ratios):.1%})"


def _variables() -> dict[str, str]:
    path = os.pathsep.join([str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return os.environ | {"PYTHONPATH": path}


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("localhost", 0))
        return int(listener.getsockname()[1])
