"""Runs the tests of clients with their own wrappers and with the bridge's: ``nox -s clients -- [--only NAME] [--all]``.

Each client has an environment of its own in ``.nox``. A client that cannot be installed here is a reason in the table.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from reports.options import Parser
from reports.render.layout import Column, Table, Text
from reports.render.terminal import render
from suites.clients.client import Client
from suites.clients.libraries import CLIENTS

PROJECT = Path(__file__).parents[2]


class Missing(Exception):
    """Why a client cannot run here."""


@dataclass
class Found:
    """What the runs of a client found.

    Attributes:
        row: The client.
        own: The outcome of each test with the client's own wrapper.
        ours: The same with the bridge's.
        changed: How many lines changed.
        times: Microseconds of a call with each wrapper.
        errors: The error of each test that failed with the bridge.
        missing: Why it cannot run here; empty if it ran.
    """

    row: Client
    own: dict[str, str] = field(default_factory=dict)
    ours: dict[str, str] = field(default_factory=dict)
    changed: int = 0
    times: dict[str, float] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    missing: str = ""

    def worse(self) -> list[str]:
        """The tests that pass with the client's own wrapper only, and are not different on purpose."""
        lost = [test for test, outcome in self.own.items() if outcome == "passed" and self.ours.get(test) != "passed"]
        return [test for test in lost if not self.row.differs(test)]

    def failed(self) -> bool:
        """Whether a test is worse, or no test passes although the client is installed."""
        return not self.missing and bool(self.worse() or "passed" not in self.ours.values())


def python_of(row: Client) -> str:
    """A Python that is new enough for a client. Raises Missing."""
    if sys.version_info >= (3, row.python):
        return sys.executable
    for minor in range(row.python, row.python + 4):
        found = shutil.which(f"python3.{minor}")
        if found and subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode == 0:
            return found
    raise Missing(f"needs Python 3.{row.python} or newer, and no python3.{row.python} is on the PATH")


def environment(name: str, row: Client) -> Path:
    """The Python of a client's environment. Raises Missing."""
    folder = PROJECT / ".nox" / f"client-{name.partition('-')[0]}"
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    wanted = "\n".join((*row.requirements, (PROJECT / "pyproject.toml").read_text("utf-8")))
    installed = folder / f"installed-{hashlib.sha256(wanted.encode()).hexdigest()[:16]}"
    if installed.exists():
        return python
    subprocess.run([python_of(row), "-m", "venv", "--clear", str(folder)], check=True)
    command = [str(python), "-m", "pip", "install", "--quiet", "-e", f"{PROJECT}[suites]", *row.requirements]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise Missing(f"cannot be installed: {errors[-1] if errors else 'pip failed'}")
    installed.touch()
    return python


def run(name: str, options: Sequence[str]) -> Found:
    """Runs the tests of a client twice, and times a call."""
    found = Found(CLIENTS[name])
    try:
        python = environment(name, found.row)
    except Missing as error:
        found.missing = str(error)
        return found
    folder = python.parents[1] / f"run-{name}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    variables = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    for what in ("own", "ours", "time"):
        file = folder / f"{what}.jsonl"
        command = [str(python), "-m", "suites.clients.inside", name, what, str(file), *options]
        with (folder / f"{what}.log").open("w") as log:
            subprocess.run(command, cwd=folder, env=variables, stdout=log, stderr=subprocess.STDOUT, check=False)
        for line in map(json.loads, file.read_text("utf-8").splitlines() if file.exists() else ()):
            if "test" in line:
                getattr(found, what)[line["test"]] = line["outcome"]
                if what == "ours" and line["outcome"] == "failed":
                    found.errors[line["test"]] = line["error"]
            found.changed += line.get("changed", 0)
            found.times |= line.get("times", {})
    return found


def table(all_found: dict[str, Found]) -> Table:
    """A row for each client."""
    heads = ("client", "passed, own", "passed, ours", "on purpose", "lost", "lines changed", "us, own", "us, ours")
    rows, notes, lost = [], [], []
    for name, found in all_found.items():
        own, ours = (f"{[*each.values()].count('passed')} of {len(found.own)}" for each in (found.own, found.ours))
        times = [f"{found.times[who]:.1f}" if who in found.times else "-" for who in ("own", "ours")]
        worse = found.worse()
        cells = (name, own, ours, sum(map(found.row.differs, found.own)), len(worse), found.changed, *times)
        rows.append(tuple(Text(str(cell)) for cell in cells))
        notes.append(f"{name}: {found.missing or f'its logs are in .nox/client-*/run-{name}'}")
        lost += [f"{name}: {test}: {found.errors.get(test, 'did not run')}" for test in worse]
    return Table("Clients", tuple(Column(head) for head in heads), tuple(rows), (*notes, *lost))


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs clients and prints the table; returns 1 if a test passes with a client's own wrapper only."""
    parser = Parser("nox -s clients --", description="Run tests of libraries with the bridge in their wrapper's place.")
    parser.add_argument("--only", action="append", choices=CLIENTS, help="a client; may be repeated (default: all)")
    parser.add_argument("--all", action="store_true", help="run all tests of a client, not a sample")
    options = parser.parse_args(arguments)
    found = {name: run(name, ["--all"] if options.all else []) for name in options.only or CLIENTS}
    print(render([table(found)], 120, False))
    return int(any(each.failed() for each in found.values()))


if __name__ == "__main__":
    sys.exit(main())
