"""A run has the commit of the repository that holds the operators. Git is asked, in real repositories."""

import pytest

from suites.cells import catalogue
from suites.cells.selection import Selection
from suites.timing import run_header
from suites.timing.run_header import header, machine_id, source
from suites.unit.suites.git_repositories import OPERATORS, commit, git


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


@pytest.mark.parametrize("given", ["my_ops.py", "her_package.operators"])
def test_the_header_of_a_run_has_the_commit_of_files_and_modules(repository, monkeypatch, given):
    """As the commands give operators: a path from a folder inside, and a module."""
    monkeypatch.chdir(repository / "kernels")
    monkeypatch.syspath_prepend(repository)
    catalogue.use([given])
    found = header(Selection(), "test")
    catalogue.use([])
    assert (found.source.commit, found.source.dirty) == (head(repository), False)
    assert found.host.memory_bytes > 0 <= found.host.load


# Machines of one model differ, and a machine stays itself.


GIB = 1 << 30
ID, BOOT = "3f2a" * 8, "9c8b-boot"
HOST = {"etc/machine-id": ID + "\n", run_header._BOOT_ID: BOOT}
OVERLAY = HOST | {"proc/self/mounts": "overlay / overlay rw,lowerdir=a 0 0\nproc /proc proc rw 0 0\n"}


@pytest.fixture
def tree(tmp_path):
    """Makes a root folder with these files."""

    def make(files):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return make


@pytest.mark.parametrize(
    ("files", "variables", "found"),
    [
        (HOST, {}, ID),
        (HOST, {"KERNEL_BRIDGE_MACHINE": " runner-7 "}, "runner-7"),
        (HOST | {"etc/machine-id": "uninitialized\n"}, {}, BOOT),
        (HOST | {".dockerenv": ""}, {}, BOOT),
        (OVERLAY, {}, BOOT),
        ({}, {}, None),
    ],
    ids=["host", "named", "empty", "docker", "kubernetes", "none"],
)
def test_the_id_is_the_machines_and_not_an_images(tree, files, variables, found):
    assert machine_id(tree(files), variables) == found


def test_a_machine_is_the_same_the_next_day_and_other_hardware_is_another_one(monkeypatch):
    """The kernel may reserve a few pages more when it starts again."""
    monkeypatch.setattr(run_header, "machine_id", lambda: ID)
    own, next_day, *others = (
        run_header.machine_identity(cpu, cores, memory)
        for cpu, cores, memory in (
            ("EPYC", 2, 16 * GIB), ("EPYC", 2, 16 * GIB - (1 << 22)), ("Xeon", 2, 16 * GIB), ("EPYC", 4, 16 * GIB),
            ("EPYC", 2, 32 * GIB),
        )
    )  # fmt: skip
    assert own == next_day
    assert own not in others
    assert (len(own), ID[:8] in own) == (16, False)


def test_packages_installed_into_a_folder_of_pythonpath_are_not_the_users(tmp_path, monkeypatch):
    for name in ("theirs", "mine"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / f"{name}_module.py").touch()
        monkeypatch.syspath_prepend(folder)
        __import__(f"{name}_module")
    (tmp_path / "theirs" / "theirs-1.0.dist-info").mkdir()
    names = {path.name for path in run_header._users_modules()}
    assert "mine_module.py" in names
    assert "theirs_module.py" not in names
