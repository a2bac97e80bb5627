"""A run has the commit of the repository that holds the operators. Git is asked, in real repositories."""

import os
import subprocess

import pytest

from suites.bench.run_header import source
from suites.unit import processes

OPERATOR = """
import numba
from suites import Operator

@numba.njit
def twice(x, out):
    for i in range(x.size):
        out[i] = 2 * x[i]

OPERATOR = Operator(name="twice", reference=lambda x: 2 * x, kernels={"numba": twice})
"""

HEADER = """
import sys
from suites.bench.run_header import header
from suites.cells import catalogue
from suites.cells.selection import Selection

catalogue.use(sys.argv[1:])
found = header(Selection(device="cpu"), "test")
print(found.source.commit, found.source.dirty, found.host.machine, found.host.memory_bytes > 0, found.host.load >= 0)
"""


def git(folder, *arguments):
    settings = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"]
    variables = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", *settings, "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=variables).stdout.strip()


@pytest.fixture
def repository(tmp_path):
    """A user's repository with operators in a folder and in a package, all committed."""
    root = tmp_path / "hers"
    for folder in ("kernels", "her_package"):
        (root / folder).mkdir(parents=True)
    for name in ("kernels/my_ops.py", "her_package/operators.py"):
        (root / name).write_text(OPERATOR)
    (root / "her_package/__init__.py").write_text("")
    (root / ".gitignore").write_text("env/\n__pycache__/\n")
    git(tmp_path, "init", "--quiet", str(root))
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "-m", "Kernels")
    return root


def head(root):
    return git(root, "rev-parse", "HEAD")


def test_a_tracked_file_in_a_folder_has_the_commit_of_its_repository(repository):
    found = source([repository / "kernels/my_ops.py"])
    assert (found.commit, found.dirty) == (head(repository), False)


def test_a_change_anywhere_in_the_repository_makes_it_dirty(repository):
    (repository / "her_package/operators.py").write_text("")
    assert source([repository / "kernels/my_ops.py"]).dirty is True


def test_a_new_file_belongs_to_the_repository_around_it(repository):
    (repository / "kernels/new.py").write_text(OPERATOR)
    found = source([repository / "kernels/new.py"])
    assert (found.commit, found.dirty) == (head(repository), True)


def test_an_ignored_file_belongs_to_none(repository):
    (repository / "env").mkdir()
    (repository / "env/installed.py").write_text(OPERATOR)
    found = source([repository / "env/installed.py"])
    assert (found.commit, found.dirty) == (None, None)


def test_a_link_belongs_where_its_file_lies(repository, tmp_path):
    (tmp_path / "link.py").symlink_to(repository / "kernels/my_ops.py")
    assert source([tmp_path / "link.py"]).commit == head(repository)


def test_the_first_file_in_a_repository_decides(repository, tmp_path):
    (tmp_path / "loose.py").write_text(OPERATOR)
    assert source([tmp_path / "loose.py"]).commit is None
    assert source([tmp_path / "loose.py", repository / "kernels/my_ops.py"]).commit == head(repository)


def test_a_repository_without_commits_has_none(tmp_path):
    git(tmp_path, "init", "--quiet", str(tmp_path))
    (tmp_path / "my_ops.py").write_text(OPERATOR)
    assert source([tmp_path / "my_ops.py"]).commit is None


def test_in_a_hook_of_another_repository_it_is_still_her_own(repository, tmp_path, monkeypatch):
    git(tmp_path, "init", "--quiet", str(tmp_path / "another"))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "another/.git"))
    assert source([repository / "kernels/my_ops.py"]).commit == head(repository)


def test_the_header_of_a_run_has_the_commit_of_files_and_modules(repository):
    """In a fresh process, as the commands give operators: a path from a folder inside, and a module."""
    program = f"import os; os.chdir({str(repository / 'kernels')!r}); import sys; sys.path.insert(0, '..')\n{HEADER}"
    found = [processes.output("-c", program, each).split() for each in ("my_ops.py", "her_package.operators")]
    assert [line[:2] for line in found] == [[head(repository), "False"]] * 2
    assert found[0][2] == found[1][2] != "None"
    assert [line[3:] for line in found] == [["True", "True"]] * 2
