"""The two sides of a comparison: which Python runs which operators of which commit."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from suites.cells.selection import Selection
from suites.compare.interleaving import measure
from suites.compare.revisions import inspection
from suites.compare.revisions.inspection import require_own_files
from suites.compare.revisions.revision import BASE, Revision
from suites.compare.revisions.revision_pair import prepare_revisions, repository_of
from suites.unit.suites.git_repositories import OPERATORS, commit, git, refusal

SLOWER = OPERATORS.replace("2 * x[i]", "x[i] + x[i]")


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A repository in which operators changed, and the current folder."""
    place = tmp_path / "project"
    commit(place, {"my_ops.py": OPERATORS, "lib/other.py": "VALUE = 1\n"})
    commit(place, {"my_ops.py": SLOWER, "lib/other.py": "VALUE = 2\n"})
    monkeypatch.chdir(place)
    return place


def made(selection, scratch, base="HEAD~1", head="HEAD", **options):
    repository = repository_of(selection)
    return prepare_revisions(
        repository, repository.commit(base), repository.commit(head), selection, scratch, **options
    )


def test_each_side_has_the_operators_of_its_commit(project, tmp_path):
    found = made(Selection(sources=("my_ops.py",)), tmp_path / "scratch")
    for side, content in ((found.base, OPERATORS), (found.head, SLOWER)):
        (source,) = side.sources
        assert Path(source).read_text() == content
        assert side.folder == side.tree
    assert len(str(found.base.tree)) == len(str(found.head.tree))
    assert found.sources == ("my_ops.py",)


def test_files_that_declare_operators_are_found(project, tmp_path):
    commit(
        project, {"test_ops.py": OPERATORS, "tests/ops.py": OPERATORS, "kernels.py": "from suites import Operator\n"}
    )
    found = made(Selection(), tmp_path / "scratch", base="HEAD~2")
    assert found.sources == ("my_ops.py",)
    assert "operators: my_ops.py" in found.notes


def test_without_operators_the_file_is_asked_for(project, tmp_path):
    commit(project, {"my_ops.py": None})
    assert "declares an operator. Name the file" in refusal(made, Selection(), tmp_path, base="HEAD", head="HEAD")


def test_a_file_that_one_side_lacks_is_said(project, tmp_path):
    commit(project, {"more_ops.py": OPERATORS.replace("twice", "again")})
    found = made(Selection(), tmp_path / "scratch")
    assert (len(found.base.sources), len(found.head.sources)) == (1, 2)
    assert any("has no file more_ops.py" in note and note.startswith("base") for note in found.notes)
    said = refusal(made, Selection(sources=("more_ops.py",)), tmp_path / "scratch")
    assert said.startswith("base (")
    assert "has no file more_ops.py" in said


def test_uncommitted_changes_are_said_unless_head_was_named(project, tmp_path):
    (project / "my_ops.py").write_text("# changed\n")
    found = made(Selection(sources=("my_ops.py",)), tmp_path / "scratch")
    assert "uncommitted changes do not count: my_ops.py" in found.notes
    found = made(Selection(sources=("my_ops.py",)), tmp_path / "scratch", ignores_changes=True)
    assert found.notes == ()


def test_the_repository_is_that_of_the_operators(project, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert repository_of(Selection(sources=("project/my_ops.py",))).root == project
    assert "git finds no work tree there" in refusal(repository_of, Selection())
    commit(tmp_path / "other", {"my_ops.py": OPERATORS})
    said = refusal(repository_of, Selection(sources=("project/my_ops.py", "other/my_ops.py")))
    assert "lie in 2 repositories" in said
    assert "there is no such folder" in refusal(repository_of, Selection(sources=("none/my_ops.py",)))


def test_processes_run_in_the_current_folder_of_their_commit(project, tmp_path, monkeypatch):
    monkeypatch.chdir(project / "lib")
    found = made(Selection(sources=("../my_ops.py",)), tmp_path / "scratch")
    assert found.base.folder == found.base.tree / "lib"
    assert (found.base.folder / "other.py").read_text() == "VALUE = 1\n"


def test_what_this_python_imports_from_the_work_tree_comes_from_the_commit(project, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path, str(project / "lib"), str(project / "not_there")])
    monkeypatch.setenv("PYTHONPATH", f"{project / 'lib'}:/elsewhere")
    found = made(Selection(sources=("my_ops.py",)), tmp_path / "scratch")
    for side in (found.base, found.head):
        path = side.variables["PYTHONPATH"].split(":")
        assert path[0] == str(side.tree / "lib")
        assert "/elsewhere" in path
        assert not [place for place in path if place.startswith(f"{project}/")]


def test_each_side_of_a_checkout_of_this_project_imports_its_own_commit(tmp_path, monkeypatch):
    place = tmp_path / "checkout"
    commit(place, {"pyproject.toml": '[project]\nname = "kernel-bridge"\n', "suites/__init__.py": ""})
    commit(place, {"suites/__init__.py": "# changed\n"})
    monkeypatch.chdir(place)
    found = made(Selection(), tmp_path / "scratch")
    for side, content in ((found.base, ""), (found.head, "# changed\n")):
        first = Path(side.variables["PYTHONPATH"].split(":")[0])
        assert (first / "suites" / "__init__.py").read_text() == content
        assert side.sources == ()
    assert git(place, "status", "--porcelain") == ""


@pytest.mark.parametrize(
    ("files", "refused"),
    [
        (["tree/a.py", "/lib/jax.py", "elsewhere.py"], None),
        (["root/.venv/jax.py"], None),  # an environment in the work tree is no code of it
        (["/lib/mine/kernels.py", "/lib/mine/more.py"], "import /lib/mine/kernels.py, and not the file of the commit"),
        (["/lib/its/kernels.py"], "import /lib/its/kernels.py, and not the file of the commit"),
    ],
)
def test_a_side_imports_the_files_of_its_commit(tmp_path, monkeypatch, files, refused):
    for name in ("mine/kernels.py", "src/its/kernels.py"):
        (tmp_path / "tree" / name).parent.mkdir(parents=True)
        (tmp_path / "tree" / name).touch()
    monkeypatch.setattr(inspection.sysconfig, "get_path", lambda name: "/lib")
    monkeypatch.setattr(inspection.sys, "prefix", str(tmp_path / "root" / ".venv"))
    tree = tmp_path / "tree"
    side = Revision(label=BASE, commit="ab", sources=("a.py",), variables={}, tree=tree, folder=tmp_path)
    arguments = side, [str(tmp_path / name) for name in files], tmp_path / "root"
    if refused is None:
        require_own_files(*arguments)
    else:
        assert refused.format(tmp_path) in refusal(require_own_files, *arguments)


def measured(revisions, **options):
    return measure(revisions, Selection(sources=revisions.sources), seconds=1, undecided=lambda *_: [], **options)


def test_a_real_side_loads_its_own_files(project, tmp_path, monkeypatch):
    """In processes of their own, as a comparison does."""
    using = "from other import VALUE\n" + OPERATORS.replace("2 * x", "VALUE * x")
    commit(project, {"my_ops.py": using})
    monkeypatch.syspath_prepend(str(project / "lib"))
    found = made(Selection(), tmp_path / "scratch", base="HEAD", head="HEAD")
    assert Path(found.base.sources[0]).is_relative_to(found.base.tree)
    # Without the import path of the side, it would import from the work tree.
    stray = replace(found.head, variables={"PYTHONPATH": ":".join(sys.path)}, folder=tmp_path)
    said = refusal(measured, replace(found, head=stray))
    assert f"import {project / 'lib' / 'other.py'}, and not the file of the commit" in said
    broken = commit(project, {"my_ops.py": "import nothing_of_this_name\n"})
    found = made(Selection(sources=("my_ops.py",)), tmp_path / "scratch", base="HEAD~1")
    said = refusal(measured, found)
    assert said == f"head ({broken[:12]}): my_ops.py: No module named 'nothing_of_this_name' (my_ops.py:1)"
