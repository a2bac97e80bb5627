"""Revisions and files of git repositories."""

import re

import pytest

from suites.compare.revisions.repository import Repository
from suites.unit.suites.git_repositories import commit, git, refusal


@pytest.fixture
def folder(tmp_path):
    """A repository with two commits on a branch, and a tag."""
    place = tmp_path / "project"
    commit(place, {"a.py": "1\n", "deep/b.py": "1\n"})
    git(place, "tag", "--annotate", "first", "--message", "a tag")
    commit(place, {"a.py": "2\n"})
    return place


def test_names_of_a_revision_lead_to_its_commit(folder):
    repository = Repository.around(folder / "deep" / "b.py")
    assert repository.root == folder
    first, second = git(folder, "rev-parse", "HEAD~1"), git(folder, "rev-parse", "HEAD")
    assert [repository.commit(name) for name in ("first", "HEAD~1", first, first[:8])] == [first] * 4
    assert [repository.commit(name) for name in ("main", "HEAD", second)] == [second] * 3


def test_a_name_without_a_commit_is_refused(folder):
    for name in ("nothing", "HEAD~9", "", "--all", "HEAD:a.py", "a\0b"):
        assert f"no revision {name!r} in {folder}" in refusal(Repository.around(folder).commit, name)


@pytest.mark.parametrize(
    ("depth", "name", "cure"),
    [(["--depth", "1"], "HEAD~1", "This clone is shallow.*fetch-depth: 0"), ([], "origin/x", "git fetch origin x")],
)
def test_a_clone_without_a_commit_says_how_to_get_it(folder, tmp_path, depth, name, cure):
    git(tmp_path, "clone", "--quiet", *depth, folder.as_uri(), str(tmp_path / "clone"))
    assert re.search(cure, refusal(Repository.around(tmp_path / "clone").commit, name))


def test_without_git_it_is_asked_for(folder, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert "Install git" in refusal(Repository.around, folder)


def test_the_variables_of_a_hook_lead_to_no_other_repository(folder, tmp_path, monkeypatch):
    other, head = tmp_path / "other", git(folder, "rev-parse", "HEAD")
    commit(other, {"c.py": ""})
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git" / "index"))
    repository = Repository.around(folder)
    assert repository.root == folder
    assert repository.commit("HEAD") == head


def test_branches_without_a_commit_in_common_have_no_merge_base(folder):
    git(folder, "switch", "--quiet", "--orphan", "stranger")
    stranger = commit(folder, {"z.py": ""})
    assert "have no commit in common" in refusal(Repository.around(folder).merge_base, "main", stranger)


def test_an_export_is_a_checkout_and_leaves_the_repository_as_it_is(folder, tmp_path):
    commit(folder, {".gitattributes": "deep export-ignore\n*.txt eol=crlf\n", "a.txt": "line\n"})
    (folder / "a.py").write_text("uncommitted\n")
    repository = Repository.around(folder)
    before = git(folder, "status", "--porcelain"), (folder / ".git" / "index").read_bytes()
    target = tmp_path / "out" / "tree"
    tree = repository.export(repository.commit("HEAD"), target)
    assert tree == target
    assert (tree / "a.py").read_text() == "2\n"
    assert (tree / "deep" / "b.py").exists(), "git archive would leave it out"
    assert (tree / "a.txt").read_bytes() == b"line\r\n", "as in a checkout"
    assert (git(folder, "status", "--porcelain"), (folder / ".git" / "index").read_bytes()) == before
    assert sorted(path.name for path in target.parent.iterdir()) == ["tree"]
