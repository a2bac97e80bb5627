"""The action runs here as scripts, with its inputs; a comment is written once and then updated."""

import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

from suites.unit.docs.pages import PROJECT, read
from suites.unit.suites.git_repositories import OPERATORS, commit, git

ACTION, COMMENT = PROJECT / "action.yml", PROJECT / ".github" / "actions" / "comment" / "action.yml"


class Job:
    """Runs the ``run:`` steps of an action in a folder, as GitHub does with the inputs of a call."""

    def __init__(self, folder, scratch, **variables):
        self.folder, self.variables = folder, variables
        self.files = {name: scratch / name for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT", "GITHUB_PATH")}
        self.said, self.failed = "", False
        self.scratch = scratch
        for file in self.files.values():
            file.touch()

    def run(self, path, **inputs):
        action = yaml.safe_load(path.read_text("utf-8"))
        inputs = {name: self.value(facts.get("default", ""), {}) for name, facts in action["inputs"].items()} | inputs
        for step in action["runs"]["steps"]:
            condition = str(step.get("if", ""))
            if (self.failed and "cancelled()" not in condition) or ("gate" in condition and inputs["gate"] != "true"):
                continue
            if step.get("uses") == "$/.github/actions/comment":
                self.run(COMMENT, **{name: self.value(text, inputs) for name, text in step["with"].items()})
            if "run" in step:
                env = {name: self.value(text, inputs) for name, text in step.get("env", {}).items()}
                self.script(step["run"], env | {"GITHUB_ACTION_PATH": str(path.parent)})
        return self

    def value(self, text, inputs):
        """A value with its expressions replaced."""
        known = {"github.token": self.variables.get("GITHUB_TOKEN", "")}
        known |= {f"inputs.{name}": value for name, value in inputs.items()}
        known["inputs.pull || github.event.pull_request.number"] = inputs.get("pull", "")
        known["steps.environment.outputs.folder"] = "unused"
        return re.sub(r"\$\{\{ (.*?) \}\}", lambda found: known[found[1]], str(text))

    def script(self, text, env):
        shared = {name: str(file) for name, file in self.files.items()}
        shared |= {"RUNNER_TEMP": str(self.scratch), "RUNNER_OS": "Linux", "RUNNER_ARCH": "X64"}
        path = f"{self.scratch}/bin{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", text], cwd=self.folder, text=True,
            capture_output=True, env={**os.environ, "PATH": path, **shared, **self.variables, **env}, timeout=900,
        )  # fmt: skip
        self.said += done.stdout + done.stderr
        self.failed |= done.returncode != 0


@pytest.fixture
def project(tmp_path):
    """A repository with two commits: a branch whose origin/main is one behind."""
    folder = tmp_path / "project"
    first = commit(folder, {"my_ops.py": OPERATORS})
    commit(folder, {"my_ops.py": OPERATORS + "\n"})
    subprocess.run(["git", "-C", str(folder), "update-ref", "refs/remotes/origin/main", first], check=True)
    return folder


@pytest.fixture
def scratch(tmp_path):
    (tmp_path / "scratch" / "bin").mkdir(parents=True)
    return tmp_path / "scratch"


def stub(scratch, text):
    """A kernel-bridge that notes its words; the action finds it, so it installs nothing."""
    file = scratch / "bin" / "kernel-bridge"
    file.write_text(f'#!/bin/bash\necho "kernel-bridge $*" >> {scratch}/words\n{text}\n')
    file.chmod(0o755)


@pytest.mark.parametrize(
    ("code", "device", "fails", "says"),
    [
        (0, "cpu", False, ""),
        (1, "cpu", True, "::error title=Slower or wrong"),
        (3, "cpu", False, "::warning title=The gate could not decide"),
        (3, "cuda", True, "::error title=The gate could not decide"),
        (137, "cpu", True, ""),
    ],
)
def test_each_exit_code_of_the_gate_means_something(project, scratch, code, device, fails, says):
    stub(scratch, f'[ "$1" != compare ] || exit {code}')
    job = Job(project, scratch, GITHUB_BASE_REF="main").run(ACTION, files="my_ops.py more.py", device=device)
    assert job.failed is fails
    assert says in job.said
    summary = f"--summary {scratch}/kernel-bridge.md"
    assert (scratch / "words").read_text().splitlines() == [
        f"kernel-bridge validate my_ops.py more.py --device {device} --profile quick {summary}",
        f"kernel-bridge compare origin/main my_ops.py more.py --gate --device {device} --profile quick {summary}",
    ]


def test_a_wrong_kernel_fails_before_anything_is_timed_and_an_event_without_base_has_no_gate(project, scratch):
    stub(scratch, 'exit "$WRONG"')
    assert Job(project, scratch, GITHUB_BASE_REF="main", WRONG="1").run(ACTION, files="my_ops.py").failed
    assert "compare" not in (scratch / "words").read_text()
    job = Job(project, scratch, GITHUB_BASE_REF="", WRONG="0").run(ACTION, files="my_ops.py")
    assert not job.failed
    assert "::notice title=No gate" in job.said
    assert "compare" not in (scratch / "words").read_text()


class GitHub(http.server.BaseHTTPRequestHandler):
    """Imitates the two endpoints of comments."""

    def answer(self):
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"] or 0)) or "null")
        server.asked.append((self.command, self.path))
        if self.headers["Authorization"] != "Bearer secret":
            self.send_error(403, "Resource not accessible by integration")
            return
        page = int((re.search(r"[?&]page=(\d+)", self.path) or [0, 1])[1])
        if self.command == "POST":
            server.comments.append({"id": 7, "html_url": "http://host/7", "user": {"type": "Bot"}, **body})
        elif self.command == "PATCH":
            next(each for each in server.comments if self.path.endswith(f"/{each['id']}")).update(body)
        found = server.comments[100 * (page - 1) : 100 * page] if self.command == "GET" else server.comments[-1]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(found).encode())

    do_GET = do_POST = do_PATCH = answer  # noqa: N815

    def log_message(self, *arguments):
        pass


@pytest.fixture
def github():
    """A local server with 100 comments, the first of which a person made with our mark."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), GitHub)
    person = {"id": 1, "user": {"type": "User"}, "body": "<!-- kernel-bridge: Kernels on cpu --> mine"}
    server.comments = [person, *({**person, "id": 1000 + number, "body": "hello"} for number in range(99))]
    server.asked = []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_the_summary_is_one_comment_that_is_updated(project, scratch, github):
    stub(scratch, 'echo "run $RUN" > "${@: -1}"')
    facts = {"GITHUB_API_URL": f"http://127.0.0.1:{github.server_port}", "GITHUB_REPOSITORY": "me/ops"}
    for run in ("one", "two"):
        job = Job(project, scratch, GITHUB_TOKEN="secret", RUN=run, **facts)
        job.run(ACTION, files="my_ops.py", gate="false", pull="5")
        assert not job.failed, job.said
    assert [command for command, _ in github.asked] == ["GET", "GET", "POST", "GET", "GET", "PATCH"]
    assert len(github.comments) == 101
    assert github.comments[0]["body"].endswith("mine"), "nobody else's comment is changed"
    assert github.comments[-1]["body"] == "<!-- kernel-bridge: Kernels on cpu -->\n## Kernels on cpu\n\nrun two\n"
    assert "run two" in job.files["GITHUB_STEP_SUMMARY"].read_text()


def test_without_a_token_that_may_write_the_summary_stands_alone(project, scratch, github):
    stub(scratch, 'echo "a run" > "${@: -1}"')
    facts = {"GITHUB_API_URL": f"http://127.0.0.1:{github.server_port}", "GITHUB_REPOSITORY": "me/ops"}
    job = Job(project, scratch, GITHUB_TOKEN="fork", **facts).run(ACTION, files="my_ops.py", gate="false", pull="5")
    assert not job.failed
    assert "::notice title=No comment" in job.said
    assert len(github.comments) == 100
    assert "a run" in job.files["GITHUB_STEP_SUMMARY"].read_text()


def which(tmp_path, body, author="MEMBER", **variables):
    """What the first job of the workflow says about a comment on a pull request whose head is 1234567890."""
    program = tmp_path / "gh"
    program.write_text("#!/bin/sh\necho 1234567890abcdef main\n")
    program.chmod(0o755)
    workflow = yaml.safe_load((PROJECT / ".github" / "workflows" / "kernels.yml").read_text("utf-8"))
    (step,) = workflow["jobs"]["which"]["steps"]
    output = tmp_path / "output"
    output.write_text("")
    env = {
        "EVENT": "issue_comment", "BODY": body, "AUTHOR": author, "PULL": "5", "COMMIT": "base", "IS_FORK": "false",
        "BASE": "", "DEVICE": "cuda", "GITHUB_REPOSITORY": "me/ops", "GITHUB_OUTPUT": str(output),
    }  # fmt: skip
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-e", "-c", step["run"]], env={**env, "PATH": path, **variables}, capture_output=True, text=True
    )
    return done.returncode, done.stdout + output.read_text()


def test_a_fork_reaches_a_gpu_by_a_maintainer_who_names_the_commit(tmp_path):
    begun = "commit=1234567890abcdef\npull=5\nbase=origin/main\n"
    assert which(tmp_path, "/bench 1234567890\nplease") == (0, begun)
    assert which(tmp_path, "nice work") == (0, "")
    assert which(tmp_path, "/bench 1234567890", author="CONTRIBUTOR")[1].startswith("::notice title=No run")
    for body in ("/bench", "/bench 1234", "/bench abcdef1234"):  # none, too short, or another one
        code, said = which(tmp_path, body)
        assert (code, "commit=" in said) == (1, False)
        assert "Name the one that you have read: /bench 1234567890ab" in said
    fork = {"EVENT": "pull_request", "IS_FORK": "true", "COMMIT": "f" * 40}
    assert "A maintainer who has read the commit comments: /bench ffffffffffff" in which(tmp_path, "", **fork)[1]
    assert which(tmp_path, "", **fork | {"DEVICE": "cpu", "BASE": "origin/main"})[1].startswith("commit=ffff")


def test_the_steps_check_and_time_a_change_end_to_end(project, scratch):
    assert shutil.which("kernel-bridge", path=str(Path(sys.executable).parent)), "the action finds this environment's"
    (project / "pyproject.toml").write_text("[tool.kernel-bridge.gate]\nminutes = 1\nmost-unsure = 1\n")
    job = Job(project, scratch, GITHUB_BASE_REF="main", KERNEL_BRIDGE_RUNS=str(project / "runs"))
    job.run(ACTION, files="my_ops.py")
    assert not job.failed, job.said
    assert "twice PASSED: numba" in job.said
    summary = job.files["GITHUB_STEP_SUMMARY"].read_text()
    assert "Validation on cpu" in summary
    assert "Gate" in summary
    assert (project / "report.html").stat().st_size > 10_000


def test_runs_are_kept_on_a_branch_in_ten_lines(project, scratch, tmp_path):
    page = read(PROJECT / "docs" / "continuous-integration.md")
    (script,) = re.findall(r"<!-- history: keep.sh -->\n```bash\n(.*?)^```", page, re.M | re.S)
    assert script.count("\n") <= 10
    origin = tmp_path / "origin"
    git(tmp_path, "init", "--quiet", "--bare", str(origin))
    git(project, "remote", "add", "origin", str(origin))
    stub(scratch, 'cat "${@: 2:$#-3}" > history.html')
    people = {f"GIT_{who}_{what}": "some@body" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    for night in ("one", "two"):
        (project / "runs").mkdir(exist_ok=True)
        for old in (project / "runs").iterdir():
            old.unlink()
        (project / "runs" / f"{night}.jsonl").write_text(f"{night}\n")
        job = Job(project, scratch, **people)
        job.script(script, {})
        assert not job.failed, job.said
    assert (project / "history.html").read_text() == "one\ntwo\n"
    assert git(origin, "ls-tree", "--name-only", "kernel-runs").split() == ["one.jsonl", "two.jsonl"]
    assert git(project, "worktree", "list").count("\n") == 0
