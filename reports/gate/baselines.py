"""Keeps one recorded run per machine and platform, which later runs on the machine are compared with."""

import datetime
import gzip
import os
import re
from pathlib import Path

from reports.errors import RunNotFound, RunUnreadable, RunUnwritable
from reports.judgement import judge
from reports.options import Exit
from reports.records.header import Run
from reports.records.run_file import RunFile, load_run
from reports.records.store import SUFFIXES

_DIGITS = 16
_HOW = "Record one on this machine: kernel-bridge bench, then kernel-bridge gate --save latest."
_FUTURE = datetime.timedelta(days=1)


def machine_label(run: Run) -> str:
    """Returns what names the machine, the platform and the GPU of a run in paths: `MACHINE-PLATFORM[-GPU]`.

    Raises:
        RunUnreadable: The run does not say on which machine it was recorded.
    """
    machine = re.sub(r"[^0-9A-Za-z]", "", run.host.machine or "")[:_DIGITS]
    if not machine:
        raise RunUnreadable(
            f"run {run.run_id} does not say on which machine it was recorded: an older version wrote it. Record a new"
            " one."
        )
    # Two GPUs of one machine are two devices.
    uuid = re.sub(r"[^0-9A-Za-z]", "", run.device.uuid or "")[:_DIGITS]
    return "-".join(filter(None, (machine, run.device.platform, uuid)))


def baseline_path(folder: Path, run: Run) -> Path:
    """Returns the path of the baseline for the machine and the platform of a run: `MACHINE-PLATFORM.jsonl.gz`.

    Raises:
        RunUnreadable: See `machine_label`.
    """
    return folder / (machine_label(run) + SUFFIXES[1])


def save_baseline(path: Path, folder: Path) -> Path:
    """Stores a run as the baseline of the machine that recorded it, and returns where. It replaces an older one.

    Args:
        path: The run file.
        folder: The folder of the baselines; it is made if it is missing.

    Raises:
        RunUnreadable: The run is damaged, incomplete or wrong, has no times, or does not name its machine.
        RunUnwritable: The baseline cannot be written.
    """
    run = load_run(path)
    judgement = judge(run)
    if judgement.exit is not Exit.FINE:
        wrong = [record.cell.id for record in run.records if record.status.wrong]
        why = judgement.lines[0] if judgement.lines else f"{wrong[0]} is wrong"
        raise RunUnreadable(f"{path}: is no baseline: {why}. Record a run in which everything passed.")
    if not any(record.timing for record in run.records):
        raise RunUnreadable(f"{path}: is no baseline: it has no times. Record one with bench.")
    target = baseline_path(folder, run.records[-1].run)
    content = path.read_bytes()
    if path.name.endswith(".gz"):
        content = gzip.decompress(content)
    scratch = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        scratch.write_bytes(gzip.compress(content, mtime=0))  # equal runs give equal files
        scratch.replace(target)
    except OSError as error:
        scratch.unlink(missing_ok=True)
        raise RunUnwritable(f"{target}: cannot be written: {error.strerror}.") from error
    return target


def require_baselines(folder: Path, platform: str) -> None:
    """Requires that a folder holds the baseline of some machine for a platform.

    Raises:
        RunNotFound: There is none.
    """
    if not any(folder.glob(f"*-{platform}*{SUFFIXES[1]}")):
        raise RunNotFound(f"no baseline for {platform} in {folder}. {_HOW}")


def find_baseline(folder: Path, run: Run, now: datetime.datetime, max_age_days: float) -> RunFile:
    """Returns the baseline of the machine and the platform of a run.

    Args:
        folder: The folder of the baselines.
        run: The header of the run that is judged.
        now: The time, in UTC.
        max_age_days: The age from which on a baseline does not count.

    Raises:
        RunNotFound: There is none, it is too old, or it is from the future.
        RunUnreadable: It cannot be read, or holds no record.
    """
    path = baseline_path(folder, run)
    if not path.exists():
        others = sorted(one.name for one in folder.glob(f"*{SUFFIXES[1]}"))
        has = f"it has {', '.join(others[:3])}" if others else "the folder is empty or missing"
        raise RunNotFound(f"no baseline for this machine in {folder} (expected {path.name}; {has}). {_HOW}")
    found = load_run(path)
    if not found.records:
        raise RunUnreadable(f"{path}: holds no record. Save a baseline again: kernel-bridge gate --save RUN.")
    age = now - datetime.datetime.fromisoformat(found.records[-1].run.started)
    if age > datetime.timedelta(days=max_age_days):
        raise RunNotFound(
            f"{path}: the baseline is {age.days} days old, and max-age-days is {max_age_days:g}. Record a new one at"
            " the revision that you compare with, and save it: kernel-bridge gate --save RUN."
        )
    if age < -_FUTURE:
        raise RunNotFound(f"{path}: the baseline was recorded {-age.days} days after today. Set the clock.")
    return found
