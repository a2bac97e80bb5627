"""A run has the commit of the repository that holds the operators. Git is asked, in real repositories."""

import pytest

from suites.timing import run_header
from suites.timing.run_header import source
from suites.unit import processes
from suites.unit.suites.git_repositories import OPERATORS, commit, git

HEADER = """
import os, sys
os.chdir(sys.argv[1])
sys.path.insert(0, "..")
from suites.timing.run_header import header
from suites.cells import catalogue
from suites.cells.selection import Selection

for given in ("my_ops.py", "her_package.operators"):
    catalogue.use([given])
    found = header(Selection(device="cpu"), "test")
    print(found.source.commit, found.source.dirty, found.host.memory_bytes > 0, found.host.load >= 0)
"""


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """The digest of all installed code takes a second, and says nothing of a commit."""
    monkeypatch.setattr(run_header, "code_digest", lambda: "")


@pytest.fixture
def repository(tmp_path):
    """A user's repository with operators in a folder and in a package, all committed."""
    root = tmp_path / "hers"
    files = dict.fromkeys(("kernels/my_ops.py", "her_package/operators.py"), OPERATORS)
    commit(root, files | {".gitignore": "env/\n__pycache__/\n"})
    return root


def head(root):
    return git(root, "rev-parse", "HEAD")


def test_a_file_has_the_commit_of_the_repository_around_it(repository, tmp_path):
    tracked, new, ignored, link, loose = (
        repository / "kernels/my_ops.py", repository / "kernels/new.py", repository / "env/installed.py",
        tmp_path / "link.py", tmp_path / "loose.py",
    )  # fmt: skip
    (repository / "env").mkdir()
    link.symlink_to(tracked)
    for path in (ignored, loose):
        path.write_text(OPERATORS)
    found = {path: source([path]) for path in (tracked, ignored, link, loose)}
    assert (found[tracked].commit, found[tracked].dirty) == (head(repository), False)
    assert (found[ignored].commit, found[ignored].dirty) == (None, None)
    assert (found[link].commit, found[loose].commit) == (head(repository), None)
    assert (found[tracked].project, found[loose].project) == ("hers", None)
    (repository / "pyproject.toml").write_text('[project]\nname = "spiking"\n')
    assert source([tracked]).project == "spiking"
    (repository / "pyproject.toml").unlink()
    assert source([loose, tracked]).commit == head(repository)  # the first file in a repository decides
    new.write_text(OPERATORS)
    assert all((source([path]).commit, source([path]).dirty) == (head(repository), True) for path in (new, tracked))


def test_a_repository_without_commits_has_none(tmp_path):
    git(tmp_path, "init", "--quiet", str(tmp_path))
    (tmp_path / "my_ops.py").write_text(OPERATORS)
    assert source([tmp_path / "my_ops.py"]).commit is None


def test_in_a_hook_of_another_repository_it_is_still_her_own(repository, tmp_path, monkeypatch):
    git(tmp_path, "init", "--quiet", str(tmp_path / "another"))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "another/.git"))
    assert source([repository / "kernels/my_ops.py"]).commit == head(repository)


def test_the_header_of_a_run_has_the_commit_of_files_and_modules(repository):
    """In a fresh process, as the commands give operators: a path from a folder inside, and a module."""
    found = processes.output("-c", HEADER, repository / "kernels").splitlines()
    assert found == [f"{head(repository)} False True True"] * 2
