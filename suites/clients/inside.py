"""Runs in the environment of a client: ``python -m suites.clients.inside NAME own|ours|time FILE [--all]``.

It writes a line of JSON for each test as soon as it has ended, so that a crash loses nothing.
"""

from __future__ import annotations

import collections
import importlib.machinery
import json
import random
import re
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from suites.clients.client import CALLS, Client, Edit, client


class Edits(importlib.machinery.PathFinder):
    """Finds the modules that have edits, and compiles their changed text. No file changes."""

    def __init__(self, edits: tuple[Edit, ...]):
        self.by_module: dict[str, list[Edit]] = collections.defaultdict(list)
        for edit in edits:
            self.by_module[edit.module].append(edit)
        self.changed = 0

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:  # type: ignore[override]
        """Finds the module as Python does, with a loader that changes its text."""
        spec = super().find_spec(name, path, target) if name in self.by_module else None
        if spec is not None and spec.origin:
            spec.loader = _Changed(name, spec.origin, self)
        return spec

    def apply(self, name: str, text: str) -> str:
        """The changed text of a module; raises ValueError if an edit matches no line."""
        for edit in self.by_module[name]:
            text, count = re.subn(rf"(?m)^([ \t]*){edit.pattern}$", rf"\g<1>{edit.line}", text)
            if not count:
                raise ValueError(f"no line of {name} matches {edit.pattern!r}")
            self.changed += count
        return text


class _Changed(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, edits: Edits):
        super().__init__(name, path)
        self.edits = edits

    def get_code(self, fullname: str) -> CodeType:
        text = self.edits.apply(fullname, Path(self.path).read_text(encoding="utf-8"))
        return compile(text, self.path, "exec", dont_inherit=True)


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


def run_tests(row: Client, edits: Edits | None, outcomes: Outcomes) -> None:
    """Runs the tests of a client."""
    if edits:
        sys.meta_path.insert(0, edits)
    pytest.main([*OPTIONS, "--rootdir", str(Path.cwd()), *row.tests], plugins=[outcomes])
    outcomes.write(changed=edits.changed if edits else 0)


def time_calls(row: Client, outcomes: Outcomes) -> None:
    """Times a call with both wrappers, in turns."""
    from suites.dispatch.__main__ import measure

    if row.calls is None:
        return

    runs: dict[Any, Callable[[int], Any]] = {
        who: lambda count, call=call: [call() for _ in range(count)][-1]  # type: ignore[misc]
        for who, call in zip(("own", "ours"), row.calls(), strict=True)
    }
    outcomes.write(times={who: statistics.median(each) / CALLS / 1e3 for who, each in measure(runs, 30).items()})


def main(name: str, what: str, file: str, *options: str) -> None:
    """Runs what is asked for."""
    row = client(name)
    outcomes = Outcomes(Path(file), None if options else row.sample)
    if what == "time":
        time_calls(row, outcomes)
    else:
        run_tests(row, Edits(row.edits) if what == "ours" else None, outcomes)


if __name__ == "__main__":
    main(*sys.argv[1:])
