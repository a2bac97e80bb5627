"""Workflows: their commands exist, and no fork reaches our machines."""

import ast
import importlib.util
import itertools
import re
import shlex
import sys
import tomllib
from pathlib import Path

import pytest

from suites.commands.command_line import parser
from suites.unit.docs.pages import PROJECT, blocks, read

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


def test_no_code_of_a_fork_reaches_our_machines_or_our_token():
    for name, text in WORKFLOWS.items():
        assert "pull_request_target" not in text, name
        assert "secrets." not in text, name
        for job in jobs(text).values():
            if "self-hosted" in job and re.search(r"^(on:.*|  )pull_request", text, re.M):
                own = "github.event.pull_request.head.repo.full_name == github.repository"
                assert own in job or "/.github/workflows/kernels.yml@" in job, name  # test_action tests its guard


def test_a_workflow_installs_extras_that_this_project_has():
    installed = [line for param in STEPS for line in re.findall(r"pip install (.*)", param.values[0].script)]
    named = {extra for line in installed for group in re.findall(r"\[([\w,-]+)\]", line) for extra in group.split(",")}
    assert "suites" in named
    assert named <= {*PYPROJECT["project"]["optional-dependencies"]}


def test_the_policy_of_the_page_is_one_that_the_gate_takes(tmp_path):
    from reports.gate.policy import find_policy

    for text in (block.code for block in blocks(PAGE, "toml")):
        (tmp_path / "pyproject.toml").write_text(text, encoding="utf-8")
        find_policy(tmp_path)
    assert "allow" in text
