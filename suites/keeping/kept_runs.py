"""Names the files of a branch with recorded runs, and chooses which of them fall out when they grow too large."""

from __future__ import annotations

import gzip
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from reports.errors import RunUnreadable
from reports.gate.baselines import machine_label
from reports.records.run_file import load_run
from reports.records.store import SUFFIXES, run_id

REST = 0.75
"""The share of the limit that is left when runs fall out. Then the branch is not written anew every night."""

_RUN_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z.-]{0,99}")


def kept_path(path: Path) -> str:
    """Returns the place of a run on the branch: ``MACHINE-PLATFORM[-GPU]/RUN.jsonl.gz``.

    Raises:
        RunUnreadable: The run is damaged, holds no record, does not name its machine, or its id fits no file name.
    """
    run = load_run(path)
    if run.problems:
        raise RunUnreadable(f"{path}: is not kept: DAMAGED: {run.problems[0]}")
    if not run.records:
        raise RunUnreadable(f"{path}: is not kept: it holds no record. Record the run again.")
    header = run.records[-1].run
    if not _RUN_ID.fullmatch(header.run_id):
        raise RunUnreadable(
            f"{path}: is not kept: its run id {header.run_id[:99]!r} fits no file name. Expected letters, digits, dots"
            " and hyphens, as kernel-bridge writes them."
        )
    return f"{machine_label(header)}/{header.run_id}{SUFFIXES[1]}"


def kept_content(path: Path) -> bytes:
    """Returns the content that a run has on the branch; equal runs have equal bytes."""
    content = path.read_bytes()
    return gzip.compress(gzip.decompress(content) if path.name.endswith(".gz") else content, mtime=0)


def is_run(path: str) -> bool:
    """Whether a path of the branch is a run: a compressed file in the folder of a machine."""
    folder, separator, name = path.partition("/")
    return bool(folder and separator and name.endswith(SUFFIXES[1]) and "/" not in name)


def fallen_out(sizes_bytes: Mapping[str, int], added: Collection[str], most_bytes: int) -> list[str]:
    """Returns the runs that leave the branch: none while all fit, else the oldest ones, down to `REST` of the limit.

    Args:
        sizes_bytes: The size of each run on the branch, by its path, with the added ones.
        added: The paths of the added runs, which stay.
        most_bytes: The limit of the sum of all sizes.

    Raises:
        RunUnreadable: The added runs alone are larger than the limit.
    """
    total = sum(sizes_bytes.values())
    own = sum(sizes_bytes[path] for path in added)
    if own > most_bytes:
        raise RunUnreadable(
            f"the runs take {own / 1e6:,.1f} MB compressed, and the branch may take {most_bytes / 1e6:,.1f} MB. Raise"
            " --most-mb."
        )
    if total <= most_bytes:
        return []
    found = []
    for path in oldest_first(sizes_bytes.keys() - {*added}):
        if total <= REST * most_bytes:
            break
        total -= sizes_bytes[path]
        found.append(path)
    return found


def newest(paths: Iterable[str], folders: Collection[str], last: int | None) -> list[str]:
    """Returns the runs of some machines, the oldest first.

    Args:
        paths: The paths of the branch.
        folders: The folders of the machines; none means all.
        last: How many runs of each machine at most, the newest ones; all by default.
    """
    by_folder: dict[str, list[str]] = {}
    for path in oldest_first(filter(is_run, paths)):
        by_folder.setdefault(path.partition("/")[0], []).append(path)
    return [
        path
        for folder, found in by_folder.items()
        if not folders or folder in folders
        for path in (found if last is None else found[-last:])
    ]


def oldest_first(paths: Iterable[str]) -> list[str]:
    """Sorts runs of all machines by their ids, which begin with the time."""
    return sorted(paths, key=lambda path: (run_id(Path(path)), path))
