"""Implements ``keep``: it adds recorded runs to a branch of the repository, and brings the runs of the branch back."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from reports.errors import ReportError, RunUnreadable
from reports.options import Exit
from reports.records.store import find_run
from reports.render.visible import visible
from suites.cells.selection import SelectionError
from suites.errors import RevisionError
from suites.keeping.history_branch import HistoryBranch, Pushed
from suites.keeping.kept_runs import fallen_out, kept_content, kept_path, newest
from suites.revisions.repository import SHORT, Repository

_MEGABYTE = 10**6


def keep(options: argparse.Namespace) -> Exit:
    """Keeps the runs that the options name, and writes the runs of the branch to a folder if they name one.

    A run that cannot be kept is said and left out: the others are kept, and the exit code is 3.

    Raises:
        SelectionError: The options ask for nothing.
        RevisionError: There is no repository or no such remote, or the remote refuses the push.
    """
    if not options.run_names and not options.into:
        raise SelectionError("got no run. Name the runs to keep, or a folder for the kept ones with --into FOLDER.")
    branch = HistoryBranch(Repository.around(Path.cwd()), options.remote, options.branch)
    files, refused = _files(options)
    if files:
        pushed = branch.add(files, lambda sizes: fallen_out(sizes, files, int(options.most_mb * _MEGABYTE)))
        _say(options, f"{_told(pushed)} at {options.remote}/{options.branch} {pushed.commit[:SHORT]}")
    if options.into:
        folders = {path.partition("/")[0] for path in files}
        count = _bring(branch, Path(options.into), folders, options.last)
        _say(options, f"{count} kept runs written to {options.into}")
    return Exit.COULD_NOT_RUN if refused else Exit.FINE


def _files(options: argparse.Namespace) -> tuple[dict[str, bytes], int]:
    """Returns the content of each run by its place on the branch, and how many runs cannot be kept."""
    files: dict[str, bytes] = {}
    refused = 0
    for name in options.run_names:
        try:
            path = find_run(name, options.runs)
            files[kept_path(path)] = kept_content(path)
        except OSError as error:
            refused += 1
            _say(options, f"{name}: cannot be read: {error.strerror or error}")
        except ReportError as error:
            refused += 1
            _say(options, str(error))
    return files, refused


def _told(pushed: Pushed) -> str:
    if not pushed.added:
        return "the runs were kept before"
    dropped = f", {len(pushed.dropped)} older ones dropped" if pushed.dropped else ""
    again = f", in {pushed.tries} tries, because others pushed too" if pushed.tries > 1 else ""
    return f"kept {', '.join(pushed.added)}{dropped}{again}"


def _bring(branch: HistoryBranch, folder: Path, folders: set[str], last: int | None) -> int:
    """Writes runs of the branch to a folder, without the folders of the machines; returns how many."""
    tip = branch.tip()
    if tip is None:
        raise RevisionError(f"{branch.remote} has no branch {branch.branch}. Keep a run first: kernel-bridge keep RUN.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".kernel-bridge-", dir=folder) as scratch:
            tree = branch.repository.export(tip, Path(scratch, "tree"))
            found = newest(branch.repository.files(tip), folders, last)
            chosen = [path for path in found if not (tree / path).is_symlink()]  # a link could lead anywhere
            for path in chosen:
                shutil.move(tree / path, folder / Path(path).name)
    except OSError as error:
        raise RunUnreadable(f"{folder}: cannot be written: {error.strerror or error}.") from error
    return len(chosen)


def _say(options: argparse.Namespace, text: str) -> None:
    print(visible(f"{options.prog}: {text}"), file=sys.stderr)
