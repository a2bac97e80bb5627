"""Runs in the environment of a client: ``python -m suites.clients.inside NAME own|ours|time FILE [--all]``.

It writes a line of JSON for each test as soon as it has ended, so that a crash loses nothing.
"""

from __future__ import annotations

import functools
import importlib.machinery
import json
import random
import re
import statistics
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from suites.clients.client import CALLS
from suites.clients.libraries import CLIENTS


class Edits(importlib.machinery.PathFinder):
    """Finds the modules of a client that have edits, and compiles their changed text. No file changes."""

    def __init__(self, edits: Mapping[str, Mapping[str, str]]):
        self.edits, self.changed = edits, 0

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:  # type: ignore[override]
        """Finds the module as Python does, with a loader that takes its code from here."""
        spec = super().find_spec(name, path, target) if name in self.edits else None
        if spec is not None and spec.origin:
            vars(spec.loader)["get_code"] = functools.partial(self.code, file=Path(spec.origin))
        return spec

    def code(self, name: str, file: Path) -> CodeType:
        """The changed code of a module; raises ValueError if an edit matches no line."""
        text = file.read_text(encoding="utf-8")
        for pattern, line in self.edits[name].items():
            text, count = re.subn(rf"(?m)^([ \t]*){pattern}$", rf"\g<1>{line}", text)
            if not count:
                raise ValueError(f"no line of {name} matches {pattern!r}")
            self.changed += count
        return compile(text, file, "exec", dont_inherit=True)


class Outcomes:
    """A plugin of pytest that draws the sample of a client, and writes the outcome of each test."""

    def __init__(self, file: Path, sample: int | None):
        self.file, self.sample = file, sample

    @pytest.hookimpl(trylast=True)  # after -k
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Draws the same tests in each run."""
        if self.sample is not None and self.sample < len(items):
            kept = set(random.Random(0).sample(range(len(items)), self.sample))
            items[:] = [item for index, item in enumerate(items) if index in kept]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Writes an outcome; a test that failed in its setup has failed."""
        if report.when == "call" or not report.passed:
            error = getattr(getattr(report.longrepr, "reprcrash", None), "message", "")
            self.write(test=report.nodeid, outcome=report.outcome, error=error.partition("\n")[0])

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file that does not import counts as a test that fails."""
        if report.failed:
            self.write(test=report.nodeid, outcome="failed", error=str(report.longrepr).rpartition("\n")[2])

    def write(self, **line: Any) -> None:
        """Appends a line."""
        with self.file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(line) + "\n")


OPTIONS = ("-q", "--noconftest", "-c", "/dev/null", "-p", "no:cacheprovider", "--tb=short", "-W", "ignore")


def main(name: str, what: str, file: str, *options: str) -> None:
    """Runs the tests of a client with its own wrapper or with the bridge's, or times a call with both in turns."""
    row = CLIENTS[name]
    outcomes = Outcomes(Path(file), None if options else row.sample)
    if what == "time":
        from suites.dispatch.__main__ import measure

        runs: dict[Any, Callable[[int], Any]] = {
            who: lambda count, call=call: [call() for _ in range(count)][-1]  # type: ignore[misc]
            for who, call in zip(("own", "ours"), row.calls() if row.calls else (), strict=False)
        }
        outcomes.write(times={who: statistics.median(each) / CALLS / 1e3 for who, each in measure(runs, 30).items()})
        return
    edits = Edits(row.edits if what == "ours" else {})
    sys.meta_path.insert(0, edits)
    pytest.main([*OPTIONS, "--rootdir", str(Path.cwd()), *row.tests], plugins=[outcomes])
    outcomes.write(changed=edits.changed)


if __name__ == "__main__":
    main(*sys.argv[1:])
