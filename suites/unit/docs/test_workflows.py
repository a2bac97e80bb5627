"""Workflows: their commands exist, and the steps that a user copies run in a repository of hers."""

import ast
import importlib.util
import itertools
import os
import re
import shlex
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from suites.commands.command_line import parser
from suites.unit.docs.pages import PROJECT, blocks, read
from suites.unit.suites.git_repositories import OPERATORS, commit, git

PAGE = PROJECT / "docs" / "continuous-integration.md"
PYPROJECT = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))


def linter():
    """The script that checks workflows, which also reads their steps."""
    spec = importlib.util.spec_from_file_location("lint_workflows", PROJECT / ".ci" / "lint_workflows.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["lint_workflows"] = module  # dataclasses look for it there
    spec.loader.exec_module(module)
    return module


LINTER = linter()
WORKFLOWS = LINTER.workflows()
STEPS = [
    pytest.param(step, id=f"{Path(name).stem}-{step.job}-{number}")
    for name, text in WORKFLOWS.items()
    for number, step in enumerate(LINTER.steps(text))
]


def commands(script):
    """The commands of a script as lists of words, with every variable replaced by a name."""
    lines = re.sub(r"\\\n", " ", script).splitlines()
    for line in lines:
        words = shlex.split(re.sub(r"\$\{?\w+\}?", "name", line), comments=True)
        for ends, group in itertools.groupby(words, lambda word: word in ("||", "&&", "|", ";", ";;")):
            if not ends:
                yield list(group)


def jobs(text):
    """The text of each job of a workflow, by its name."""
    parts = re.split(r"^  (\w+):\n", text.partition("\njobs:\n")[2], flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def sessions():
    """The names of the nox sessions."""
    found = {}
    for node in ast.parse((PROJECT / "noxfile.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and "nox.session" in "".join(map(ast.unparse, node.decorator_list)):
            named = re.search(r"name='(\w+)'", ast.unparse(node.decorator_list[0]))
            found[named[1] if named else node.name] = ast.unparse(node)
    return found


def problem(words):
    """What is wrong with a command of ours; None if nothing is, or it is somebody else's."""
    if words[0] == "kernel-bridge":
        return refused(words[1:])
    if words[0] == "nox":
        # A session for several versions of Python is named with one of them, and with its parameters.
        name, ours = re.sub(r"-[\w.]+\(.*\)$", "", words[2]), words[4:]
        if words[1] != "-s" or name not in sessions():
            return f"there is no nox session {name}"
        if "command(session" in sessions()[name]:
            return refused([name, *ours])
        missing = [each for word in ours if "/" in word for each in expanded(word) if not (PROJECT / each).exists()]
        return f"there is no {missing[0]}" if missing else None
    return None


def refused(arguments):
    # The value of a variable is not known here; any part will do.
    known = ["1/2" if before == "--part" else word for before, word in itertools.pairwise(["", *arguments])]
    try:
        parser().parse_args(known)
    except SystemExit:
        return f"kernel-bridge refuses {' '.join(arguments)}"
    return None


def expanded(word):
    """The words that bash makes of one with braces."""
    braces = re.search(r"\{([^}]*)\}", word)
    if not braces:
        return [word]
    return [word[: braces.start()] + each + word[braces.end() :] for each in braces[1].split(",")]


@pytest.mark.parametrize("step", STEPS)
def test_every_command_of_a_workflow_exists_with_its_options(step):
    assert [found for words in commands(step.script) if (found := problem(words))] == []


def test_every_command_of_the_page_for_slurm_exists():
    (script,) = re.findall(r"<!-- slurm: parts.sh -->\n```bash\n(.*?)^```", read(PAGE), re.M | re.S)
    found = [words for words in commands(script) if words[0] == "kernel-bridge"]
    assert found
    assert [problem(words) for words in found if problem(words)] == []


def test_a_command_that_does_not_exist_is_seen():
    assert "refuses" in problem(["kernel-bridge", "bench", "--profil", "fll"])
    assert "no nox session" in problem(["nox", "-s", "lnt"])
    assert "no nox session" in problem(["nox", "-s", "version-3.13(newest)"])
    assert problem(["nox", "-s", "versions-3.13(newest)"]) is None
    calls = problem(["nox", "-s", "tests", "--", "suites/test_{calls,refusals}.py"])
    assert "there is no suites/test_calls.py" in calls
    assert list(commands('a "$X" || code=$?\nb c  # d\n')) == [["a", "name"], ["code=$?"], ["b", "c"]]


def test_the_workflows_are_found():
    assert {Path(name).name.partition(":")[0] for name in WORKFLOWS} == {
        "ci.yml", "speed.yml", "gpu.yml", "nightly.yml", "versions.yml", PAGE.name
    }  # fmt: skip
    assert {param.values[0].job for param in STEPS} >= {"cpu", "cuda", "tests", "minimums"}


@pytest.mark.parametrize("name", WORKFLOWS)
def test_an_action_is_pinned_by_a_commit_with_its_version_and_the_same_everywhere(name):
    versions = {}
    for text in WORKFLOWS.values():
        for action, pin, version in re.findall(r"uses: ([\w/-]+)@([0-9a-f]{40}) # (v\d+\.\d+\.\d+)$", text, re.M):
            versions.setdefault(action, set()).add((pin, version))
    assert all(len(pins) == 1 for pins in versions.values())
    used = re.findall(r"uses: (\S+)", WORKFLOWS[name])
    assert used
    assert {each.partition("@")[0] for each in used} <= versions.keys()
    assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", each) for each in used)


def test_no_job_can_write():
    for name, text in WORKFLOWS.items():
        assert re.search(r"^permissions:\n  contents: read$", text, re.M), name
        assert re.findall(r"^\s+(\w+): write", text, re.M) == [], name
        assert text.count("timeout-minutes") == text.count("runs-on:"), name


def test_no_code_of_a_fork_reaches_our_machines_or_our_token():
    for name, text in WORKFLOWS.items():
        assert "pull_request_target" not in text, name
        assert "secrets." not in text, name
        for job in jobs(text).values():
            if "self-hosted" in job and re.search(r"^(on:.*|  )pull_request", text, re.M):
                assert "github.event.pull_request.head.repo.full_name == github.repository" in job, name


SHIM = """#!/bin/sh
exec "{python}" -P -m suites "$@"
"""

INSTALLER = """#!/bin/sh
echo "$@" >> "{log}"
"""


class Runner:
    """Runs the steps of a job in order, as GitHub does, where installing and uploading have stand-ins."""

    def __init__(self, folder, work):
        self.work, self.summary, self.log = work, folder / "summary.md", folder / "installed"
        programs = folder / "programs"
        programs.mkdir()
        for name, script in (("kernel-bridge", SHIM), ("python", INSTALLER)):
            (programs / name).write_text(script.format(python=sys.executable, log=self.log))
            (programs / name).chmod(0o755)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("KERNEL_BRIDGE", "GITHUB"))}
        self.variables = kept | {
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "CI": "true",
            "PYTHONPATH": os.pathsep.join(filter(None, [str(PROJECT), *sys.path])),
            "GITHUB_STEP_SUMMARY": str(self.summary), "GITHUB_BASE_REF": "main", "GITHUB_ACTIONS": "true",
            "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull,
        }  # fmt: skip
        self.output = ""

    def step(self, step):
        """Runs a step; returns its exit code."""
        done = subprocess.run(
            ["bash", "-e", "-c", step.script], cwd=self.work, env=self.variables | step.env,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600,
        )  # fmt: skip
        self.output += f"$ {step.script}\n{done.stdout}-> {done.returncode}\n"
        return done.returncode


def workflow(file):
    """The workflow that the page shows under a name."""
    (text,) = re.findall(rf"<!-- workflow: {re.escape(file)} -->\n```yaml\n(.*?)^```", read(PAGE), re.M | re.S)
    return text


@pytest.fixture
def work(tmp_path):
    """What actions/checkout leaves of a user's repository: a clone at a change of hers, which knows origin/main."""
    short = "[tool.kernel-bridge.gate]\nminutes = 0.2\n"
    project = tmp_path / "project"
    commit(project, {"my_ops.py": OPERATORS, "pyproject.toml": short, ".gitignore": "runs/\nkept/\n"})
    git(tmp_path, "clone", "--quiet", "--bare", str(project), str(tmp_path / "remote.git"))
    git(tmp_path, "clone", "--quiet", str(tmp_path / "remote.git"), str(tmp_path / "work"))
    commit(tmp_path / "work", {"my_ops.py": OPERATORS.replace("2 * x[i]", "x[i] + x[i]")}, "another way")
    git(tmp_path / "work", "checkout", "--quiet", "--detach")
    return tmp_path / "work"


def uploaded(text, job):
    """The paths of the artifact of a job."""
    own = jobs(text)[job]
    return re.findall(r'path: "?([\w./*]+)', own.partition("upload-artifact")[2])


@pytest.mark.timeout(900)
@pytest.mark.skipif(find_spec("vl_convert") is None, reason="the page needs vl-convert-python: kernel-bridge[report]")
def test_the_steps_of_the_page_check_a_change(work, tmp_path):
    """The job for CPUs, from top to bottom, with one operator and the shortest times."""
    runner = Runner(tmp_path, work)
    text = workflow("kernels.yml")
    cpu = [step for step in LINTER.steps(text) if step.job == "cpu"]
    for step in cpu:
        assert runner.step(step) == 0, runner.output
    assert "Is anything slower?" in [step.name for step in cpu]
    summary = runner.summary.read_text(encoding="utf-8")
    assert "twice" in summary
    assert "PASSED" in summary
    (installed, *_) = runner.log.read_text().splitlines()
    assert installed.startswith("-m pip install")
    assert "kernel-bridge" in installed
    assert [path for path in uploaded(text, "cpu") if not (work / path).is_file()] == []
    assert (work / "report.html").read_text(encoding="utf-8").count("twice") > 0
    assert len([*(work / "runs").glob("*.jsonl")]) == 3  # a validation, and both sides of the gate


@pytest.mark.parametrize(
    ("job", "code", "ends", "says"),
    [
        ("cpu", 0, 0, ""), ("cpu", 1, 1, "::error title=Slower or wrong"), ("cpu", 3, 0, "::warning title="),
        ("cuda", 0, 0, ""), ("cuda", 1, 1, "::error title=Slower or wrong"), ("cuda", 3, 3, "::error title=The gate"),
        ("cpu", 137, 137, ""),
    ],
)  # fmt: skip
@pytest.mark.parametrize("file", ["kernels.yml", "speed.yml", "gpu.yml"])
def test_each_exit_code_of_the_gate_means_something(tmp_path, file, job, code, ends, says):
    text = workflow(file) if file == "kernels.yml" else WORKFLOWS[f".github/workflows/{file}"]
    gates = [step for step in LINTER.steps(text) if step.job == job and "kernel-bridge compare" in step.script]
    if not gates:
        assert (file, job) in {("speed.yml", "cuda"), ("gpu.yml", "cpu")}
        return
    (gate,) = gates
    runner = Runner(tmp_path, tmp_path)
    (tmp_path / "programs" / "kernel-bridge").write_text(f"#!/bin/sh\nexit {code}\n")
    assert runner.step(gate) == ends
    assert says in runner.output


def test_what_a_workflow_installs_is_this_project_with_extras_that_it_has():
    found = [
        word
        for param in STEPS
        for words in commands(param.values[0].script)
        if words[:3] == ["python", "-m", "pip"] or words[:4] == ["python", "-m", "pip", "install"]
        for word in words[4:]
    ]
    assert found
    extras = PYPROJECT["project"]["optional-dependencies"]
    for word in found:
        if word in ("nox", "-e"):
            continue
        if word.startswith("."):
            assert {*re.findall(r"\w+", word)} <= {*extras}, word
            continue
        requirement = Requirement(word)
        assert requirement.name == PYPROJECT["project"]["name"]
        assert requirement.extras <= {*extras}
        assert requirement.url == "git+name"  # a variable, which `commands` replaces


def test_the_policy_of_the_page_is_one_that_the_gate_takes(tmp_path):
    from reports.gate.policy import find_policy

    for text in (block.code for block in blocks(PAGE, "toml")):
        (tmp_path / "pyproject.toml").write_text(text, encoding="utf-8")
        find_policy(tmp_path)
    assert "allow" in text
