"""Keeping: runs on a branch of a real bare repository, with two that push at once, and a bound on its size."""

import gzip
import os
import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import pytest

from reports import load_run
from reports.options import Exit
from suites.errors import RevisionError
from suites.keeping.history_branch import MARK, HistoryBranch
from suites.keeping.kept_runs import fallen_out, newest
from suites.revisions.repository import Repository
from suites.sessions.commands.command_line import main
from suites.unit.docs.pages import PROJECT
from suites.unit.reports.builders import GPU, HOST, make_cell, make_record, make_run, whole
from suites.unit.suites.git_repositories import commit, git

MACHINE = msgspec.structs.replace(HOST, machine="ab12cd34ef56ab78")
CPU_FOLDER, GPU_FOLDER = "ab12cd34ef56ab78-cpu", "ab12cd34ef56ab78-cuda-GPU1"


@pytest.fixture
def remote(tmp_path):
    """A bare repository with a commit on its main branch."""
    folder = tmp_path / "remote.git"
    git(tmp_path, "init", "--quiet", "--bare", "--initial-branch", "main", str(folder))
    commit(tmp_path / "first", {"my_ops.py": "x = 1\n"})
    git(tmp_path / "first", "push", "--quiet", str(folder), "main")
    return folder


@pytest.fixture
def clone(tmp_path, remote, monkeypatch):
    """A clone, which is the current folder. Git knows no author, as on a machine of CI."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)
    monkeypatch.setenv("KERNEL_BRIDGE_RUNS", str(tmp_path / "runs"))
    for variable in ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "EMAIL"):
        monkeypatch.delenv(variable, raising=False)
    folder = cloned(remote, tmp_path / "clone")
    monkeypatch.chdir(folder)
    return folder


def cloned(remote, folder):
    git(folder.parent, "clone", "--quiet", str(remote), str(folder))
    return folder


def recorded(run_id, *, size=4096, host=MACHINE, **changes):
    """A run in the folder of runs, with a time."""
    path = Path(os.environ["KERNEL_BRIDGE_RUNS"], f"{run_id}.jsonl")
    path.parent.mkdir(exist_ok=True)
    run = make_run(run_id=run_id, host=host, **changes)
    cells = [make_cell(size=size, backend=name, platform=run.device.platform) for name in ("jnp", "numba")]
    path.write_bytes(whole([make_record(cell, run=run) for cell in cells]))
    return path


def kept(remote, branch="history"):
    """The runs on the branch, without their ends."""
    listed = git(remote, "ls-tree", "-r", "--name-only", branch).splitlines()
    return [path.removesuffix(".jsonl.gz") for path in listed if path not in (MARK, "README.md")]


def commits(remote):
    return int(git(remote, "rev-list", "--count", "history"))


def test_runs_are_kept_by_machine_and_nothing_local_changes(clone, remote, capsys):
    recorded("20261120T190102-3f2a")
    recorded("20261121T190102-aaaa", device=GPU)
    (clone / "my_ops.py").write_text("x = 2\n")
    before = git(clone, "status", "--porcelain"), git(clone, "for-each-ref", "refs/heads")
    assert main(["keep", "previous", "latest"]) == Exit.FINE
    assert kept(remote) == [f"{CPU_FOLDER}/20261120T190102-3f2a", f"{GPU_FOLDER}/20261121T190102-aaaa"]
    assert (git(clone, "status", "--porcelain"), git(clone, "for-each-ref", "refs/heads")) == before
    assert f"kept {CPU_FOLDER}/20261120T190102-3f2a.jsonl.gz" in capsys.readouterr().err
    assert git(remote, "log", "--format=%an", "history") == "kernel-bridge"
    assert git(remote, "rev-list", "--max-parents=0", "history") == git(remote, "rev-parse", "history")


def test_the_next_night_is_added_and_the_same_run_only_once(clone, remote, capsys):
    recorded("20261120T190102-3f2a")
    assert main(["keep", "latest"]) == Exit.FINE
    assert main(["keep", "latest"]) == Exit.FINE
    assert "kept before" in capsys.readouterr().err
    assert commits(remote) == 1
    recorded("20261121T190102-3f2a")
    assert main(["keep", "latest"]) == Exit.FINE
    assert (commits(remote), len(kept(remote))) == (2, 2)


def test_kept_runs_come_back_as_they_were(clone, tmp_path, capsys):
    paths = [recorded(f"2026112{day}T190102-3f2a", size=day * 64) for day in (1, 2, 3)]
    other = recorded("20261124T190102-bbbb", host=msgspec.structs.replace(HOST, machine="ffff"))
    assert main(["keep", *map(str, paths), str(other)]) == Exit.FINE
    assert main(["keep", "--into", "all"]) == Exit.FINE
    assert sorted(path.name for path in Path("all").iterdir()) == [f"{path.name}.gz" for path in (*paths, other)]
    assert gzip.decompress(Path("all", f"{paths[0].name}.gz").read_bytes()) == paths[0].read_bytes()
    assert main(["keep", str(other), "--into", "one"]) == Exit.FINE
    assert [load_run(path).run_id for path in Path("one").iterdir()] == ["20261124T190102-bbbb"]
    assert main(["keep", str(paths[0]), "--into", "last", "--last", "2"]) == Exit.FINE
    assert sorted(path.name[:8] for path in Path("last").iterdir()) == ["20261122", "20261123"]
    assert main(["runs", "--runs", "all"]) == Exit.FINE
    assert "20261124T190102-bbbb" in capsys.readouterr().out


RACER = """
import sys
from pathlib import Path
from suites.keeping.history_branch import HistoryBranch
from suites.revisions.repository import Repository

name = sys.argv[1]
branch = HistoryBranch(Repository.around(Path.cwd()), "origin", "history")
print("ready", flush=True)
sys.stdin.readline()
print(sum(branch.add({f"{name}/{night}.jsonl.gz": name.encode() * 99}, lambda sizes: []).tries for night in range(6)))
"""


def test_of_those_who_push_at_the_same_time_nobody_loses_a_run(clone, remote, tmp_path):
    """Two processes, in two clones, begin at the same moment, on a branch that is not there yet."""
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, name],
            cwd=cloned(remote, tmp_path / name), env=os.environ | {"PYTHONPATH": str(PROJECT)}, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )
        for name in ("one", "two")
    ]  # fmt: skip
    for racer in racers:
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        racer.stdin.write("go\n")
        racer.stdin.flush()
    tries = [int(racer.communicate(timeout=120)[0]) for racer in racers]
    assert [racer.returncode for racer in racers] == [0, 0]
    assert sorted(kept(remote)) == [f"{name}/{night}" for name in ("one", "two") for night in range(6)]
    assert commits(remote) == 12
    print(f"{tries} tries for 6 runs each")


def test_two_in_one_clone_lose_nothing_either(clone, remote):
    branch = HistoryBranch(Repository.around(clone), "origin", "history")
    failures = []

    def push(name):
        try:
            for night in range(3):
                branch.add({f"{name}/{night}.jsonl.gz": name.encode()}, lambda sizes: [])
        except RevisionError as error:
            failures.append(error)

    threads = [threading.Thread(target=push, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(kept(remote)) == 6


def test_a_commit_is_made_anew_on_what_another_pushed(clone, remote, tmp_path, monkeypatch):
    """The other one pushes between our fetch and our push, at a moment that the test chooses."""
    here = HistoryBranch(Repository.around(clone), "origin", "history", pause=lambda seconds: None)
    there = HistoryBranch(Repository.around(cloned(remote, tmp_path / "other")), "origin", "history")
    here.add({"a/1.jsonl.gz": b"1"}, lambda sizes: [])
    moments = iter([True, True, False])

    def drop(sizes):
        if next(moments):
            there.add({f"b/{len(sizes)}.jsonl.gz": b"2"}, lambda sizes: [])
        return []

    assert here.add({"a/2.jsonl.gz": b"3"}, drop).tries == 3
    assert kept(remote) == ["a/1", "a/2", "b/2", "b/3"]


def test_a_branch_that_begins_anew_takes_along_what_another_pushed(clone, remote, tmp_path):
    """Dropping pushes by force; even so, no run that another pushed in the meantime is lost."""
    here = HistoryBranch(Repository.around(clone), "origin", "history", pause=lambda seconds: None)
    there = HistoryBranch(Repository.around(cloned(remote, tmp_path / "other")), "origin", "history")
    here.add({"a/1.jsonl.gz": b"1", "a/2.jsonl.gz": b"2"}, lambda sizes: [])
    moments = iter([True, False])

    def drop(sizes):
        if next(moments):
            there.add({"b/3.jsonl.gz": b"3"}, lambda sizes: [])
        return ["a/1.jsonl.gz"]

    pushed = here.add({"a/4.jsonl.gz": b"4"}, drop)
    assert (pushed.tries, pushed.dropped, kept(remote)) == (2, ("a/1.jsonl.gz",), ["a/2", "a/4", "b/3"])
    assert commits(remote) == 1


def test_the_branch_stays_below_its_limit_and_its_old_content_leaves_the_repository(clone, remote):
    branch = HistoryBranch(Repository.around(clone), "origin", "history")
    contents = {f"m/{night:02}.jsonl.gz": os.urandom(20_000) for night in range(30)}
    for path, content in contents.items():
        branch.add({path: content}, lambda sizes, path=path: fallen_out(sizes, {path}, 200_000))
        on_branch = git(remote, "rev-list", "--objects", "--disk-usage", "history", "--not", "main")
        assert int(on_branch) < 210_000
    assert kept(remote)[-1] == "m/29"
    assert 7 <= len(kept(remote)) <= 10
    assert commits(remote) < 6
    fresh = git(remote, "rev-list", "--objects", "history").splitlines()
    assert not any(line.endswith("m/00.jsonl.gz") for line in fresh)


def test_the_oldest_runs_fall_out_whatever_their_machine_and_added_ones_never():
    sizes = {"a/20260103.jsonl.gz": 30, "b/20260101.jsonl.gz": 30, "a/20260102.jsonl.gz": 30, "b/20260104.jsonl.gz": 30}
    assert fallen_out(sizes, ["b/20260104.jsonl.gz"], 120) == []
    assert fallen_out(sizes, ["b/20260104.jsonl.gz"], 119) == ["b/20260101.jsonl.gz", "a/20260102.jsonl.gz"]
    assert fallen_out(sizes, ["b/20260101.jsonl.gz"], 40) == [
        f"{path}.jsonl.gz" for path in ("a/20260102", "a/20260103", "b/20260104")
    ]


def test_the_newest_runs_are_of_each_machine():
    paths = ["README.md", MARK, "a/1.jsonl.gz", "b/1.jsonl.gz", "a/2.jsonl.gz", "a/3.jsonl.gz", "a/deep/4.jsonl.gz"]
    assert newest(paths, [], None) == ["a/1.jsonl.gz", "a/2.jsonl.gz", "a/3.jsonl.gz", "b/1.jsonl.gz"]
    assert newest(paths, [], 1) == ["a/3.jsonl.gz", "b/1.jsonl.gz"]
    assert newest(paths, ["b"], 5) == ["b/1.jsonl.gz"]


def refusal(arguments, capsys):
    capsys.readouterr()
    assert main(["keep", *arguments]) == Exit.COULD_NOT_RUN
    return capsys.readouterr().err.strip()


def test_a_branch_with_other_files_is_never_written(clone, remote, capsys):
    recorded("20261120T190102-3f2a")
    before = git(remote, "rev-parse", "main")
    assert "holds other files than recorded runs" in refusal(["latest", "--branch", "main"], capsys)
    assert git(remote, "rev-parse", "main") == before


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "got no run"),
        (["latest", "--remote", "upstream"], "no remote 'upstream': it has origin"),
        (["latest", "--branch", "a..b"], "expected the name of a branch"),
        (["nothing"], "no run 'nothing'"),
        (["--into", "folder"], "has no branch history. Keep a run first"),
        (["latest", "--most-mb", "0"], None),
    ],
)
def test_what_makes_no_sense_is_said_in_one_line(clone, capsys, arguments, said):
    recorded("20261120T190102-3f2a")
    if said is None:
        with pytest.raises(SystemExit):
            main(["keep", *arguments])
        return
    message = refusal(arguments, capsys)
    assert said in message
    assert "\n" not in message


def test_a_damaged_run_is_left_out_and_the_others_are_kept(clone, remote, capsys):
    good = recorded("20261120T190102-3f2a")
    damaged = recorded("20261121T190102-aaaa")
    damaged.write_bytes(damaged.read_bytes()[:-40])
    nameless = recorded("20261122T190102-bbbb", host=HOST)
    outside = recorded("20261123T190102-cccc")
    outside.write_bytes(outside.read_bytes().replace(b"20261123T190102-cccc", b"../../refs/heads/xyz"))
    message = refusal([str(good), str(damaged), str(nameless), str(outside)], capsys)
    assert "DAMAGED" in message
    assert "does not say on which machine" in message
    assert kept(remote) == [f"{CPU_FOLDER}/20261120T190102-3f2a"]
    assert not (remote / "refs/heads/xyz").exists()


def test_a_remote_that_refuses_is_asked_a_few_times_and_its_reason_is_said(clone, remote, capsys):
    recorded("20261120T190102-3f2a")
    hook = remote / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho asked >> asked\necho 'this branch is protected' >&2\nexit 1\n")
    hook.chmod(0o755)
    message = refusal(["latest"], capsys)
    assert "pre-receive hook declined" in message
    assert "this branch is protected" in message
    assert "contents: write" in message
    assert len((remote / "asked").read_text().splitlines()) == 4


def test_a_shallow_clone_of_ci_keeps_too(clone, remote, tmp_path, monkeypatch):
    recorded("20261120T190102-3f2a")
    assert main(["keep", "latest"]) == Exit.FINE
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "--quiet", "--depth", "1", "--branch", "main", remote.as_uri(), str(shallow))
    monkeypatch.chdir(shallow)
    recorded("20261121T190102-3f2a")
    assert main(["keep", "latest"]) == Exit.FINE
    assert len(kept(remote)) == 2
