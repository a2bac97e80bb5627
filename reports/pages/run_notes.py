"""Writes the notes on the run, device, machine, versions and flags of a table."""

from collections.abc import Callable, Mapping, Sequence

from reports.pages.rows import CellRow
from reports.records.header import Run


def run_notes(rows: Sequence[CellRow]) -> list[str]:
    """Returns run, device, host, versions and flags. If cells differ, a note lists all of their values."""
    runs = [row.run for row in rows]
    return [
        _distinct("run", runs, _run_text),
        _distinct("device", runs, _device_text),
        _distinct("host", runs, _host_text),
        _distinct("versions", runs, lambda run: _pairs(run.versions, " ")),
        _distinct("flags", runs, lambda run: _pairs(run.flags, "=") or "none set"),
    ]


def device_name(run: Run) -> str:
    """Returns the name of the device of a run: the model of the CPU, or the kind of the GPU."""
    return run.host.cpu if run.device.platform == "cpu" else run.device.kind


def platform_name(run: Run) -> str:
    """Returns the platform and the device of a run, such as `cuda: NVIDIA H200`."""
    return f"{run.device.platform}: {device_name(run)}"


def _run_text(run: Run) -> str:
    commit = f"commit {run.source.commit[:12]}" if run.source.commit else "commit unknown"
    dirty = {True: " with uncommitted changes", False: "", None: ", changes unknown"}[run.source.dirty]
    return f"{run.run_id}, profile {run.profile}, started {run.started}, {commit}{dirty}"


def _device_text(run: Run) -> str:
    device = run.device
    parts = [f"{device.kind} ({device.platform}:{device.ordinal})"]
    parts += [f"{name} {value}" for name, value in (("driver", device.driver), ("CUDA", device.cuda)) if value]
    parts += [f"clock {device.sm_clock_mhz} MHz"] if device.sm_clock_mhz else []
    parts += gpu_doubts(run)
    return ", ".join(parts)


def gpu_doubts(run: Run) -> list[str]:
    """Returns what else may have changed the times on a GPU when the run started."""
    others = run.device.other_processes
    doubts = [f"{others} processes of others used it"] if others else []
    return doubts + (["it was slowed down by hardware, heat or power"] if run.device.is_slowed else [])


def _host_text(run: Run) -> str:
    host, usable = run.host, len(run.host.affinity)
    cores = f"{host.cores} cores" + (f", {usable} of them usable" if usable != host.cores else "")
    load = "" if host.load is None else f", load {host.load:.2f}"
    return f"{host.cpu}, {cores}, threads: {_pairs(host.threads, ' ') or 'not recorded'}, {host.os}{load}"


def _distinct(name: str, runs: Sequence[Run], text: Callable[[Run], str]) -> str:
    # Most cells share one header object. Its text is made once.
    different = {id(run): run for run in runs}.values()
    return f"{name}: " + "; ".join(dict.fromkeys(text(run) for run in different))


def _pairs(mapping: Mapping[str, object], between: str) -> str:
    return ", ".join(f"{name}{between}{value}" for name, value in sorted(mapping.items()) if value is not None)
