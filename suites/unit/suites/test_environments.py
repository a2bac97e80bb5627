"""Environments of revisions: a fake project is installed in place of this one, from no index."""

import subprocess
import sys
import time

import pytest

from suites.errors import RevisionError
from suites.revisions import environments
from suites.revisions.environments import Wanted, build, installed_versions

COMMITS = ("a" * 40, "b" * 40)


@pytest.fixture
def pip(monkeypatch):
    """The commands that would have been started: venv and pip. A command with a word of ``fails`` fails."""
    commands, fails = [], []

    def run(command, *, stdout, **options):
        commands.append(list(command))
        if "venv" in command:
            folder = environments.Path(command[-1])
            (folder / "bin").mkdir(parents=True, exist_ok=True)
            (folder / "bin" / "python").write_text("")
        failed = any(word in " ".join(command) for word in fails)
        stdout.write(b"ERROR: no matching distribution\n" if failed else b"fine\n")
        return subprocess.CompletedProcess(command, int(failed))

    monkeypatch.setattr(environments.subprocess, "run", run)
    return commands, fails


def wanted(label, commit, tmp_path):
    tree = tmp_path / label
    tree.mkdir(exist_ok=True)
    return Wanted(label, commit, tree, ("suites",))


def test_both_sides_are_installed_with_the_versions_of_this_python(pip, tmp_path):
    commands, _ = pip
    sides = [wanted("base", COMMITS[0], tmp_path), wanted("head", COMMITS[1], tmp_path)]
    base, head = build(sides, tmp_path / "kept", ["jax==0.10.2"])
    assert base.python != head.python
    assert "aaaaaaaaaaaa-" in str(base.python)
    installs = [command for command in commands if "pip" in command]
    assert {command[-1] for command in installs} == {
        f"kernel-bridge[suites] @ {side.tree.resolve().as_uri()}" for side in sides
    }
    for command in installs:
        pins = environments.Path(command[command.index("--constraint") + 1])
        assert pins.read_text() == "jax==0.10.2\n"
    assert (base.note, head.note) == (None, None)


def test_an_environment_is_built_once_and_again_for_other_versions(pip, tmp_path):
    commands, _ = pip
    side = wanted("base", COMMITS[0], tmp_path)
    first = build([side, side], tmp_path / "kept", ["jax==0.10.2"])
    count = len(commands)
    assert first[0] == first[1]
    assert build([side], tmp_path / "kept", ["jax==0.10.2"]) == first[:1]
    assert len(commands) == count
    assert build([side], tmp_path / "kept", ["jax==0.10.3"]) != first[:1]


def test_versions_that_a_revision_cannot_have_are_left_to_pip_and_said(pip, tmp_path):
    commands, fails = pip
    fails.append("--constraint")
    side = wanted("head", COMMITS[1], tmp_path)
    for _ in range(2):
        (built,) = build([side], tmp_path / "kept", ["jax==0.10.2"])
        assert built.note == (
            "head (bbbbbbbbbbbb) cannot have the versions that are installed here: pip chose others, and the times"
            " differ by these too"
        )
    assert len(commands) == 3


def test_a_revision_that_cannot_be_installed_is_named_with_the_last_lines_of_pip(pip, tmp_path):
    _, fails = pip
    fails.append("kernel-bridge[suites]")
    side = wanted("head", COMMITS[1], tmp_path)
    with pytest.raises(RevisionError) as caught:
        build([side], tmp_path / "kept", [])
    first, *rest = str(caught.value).splitlines()
    assert first == "head: revision bbbbbbbbbbbb cannot be installed; the last lines of pip:"
    assert rest[-1] == "    ERROR: no matching distribution"
    fails.clear()
    assert build([side], tmp_path / "kept", []), "what was built in part is built again"


def test_the_least_used_environments_are_forgotten(pip, tmp_path, monkeypatch):
    kept = tmp_path / "kept"
    old = kept / "old-1"
    for number in range(environments.KEPT + 2):
        (kept / f"old-{number}").mkdir(parents=True)
        (kept / f"old-{number}" / "complete").write_text("")
        used = time.time() - 86400 * (1 if number == 1 else 2 + number)
        environments.os.utime(kept / f"old-{number}" / "complete", (used, used))
    build([wanted("base", COMMITS[0], tmp_path)], kept, [])
    left = {path.name for path in kept.iterdir() if path.is_dir()}
    assert len(left) == environments.KEPT
    assert old.exists()
    assert f"old-{environments.KEPT + 1}" not in left


def test_the_versions_of_this_python_leave_this_project_out():
    versions = dict(line.split("==") for line in installed_versions())
    assert "kernel-bridge" not in versions
    assert {"jax", "numba", "pytest"} <= versions.keys()


def test_a_real_environment_imports_the_revision_and_nothing_of_this_one(tmp_path, monkeypatch):
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
        '[project]\nname = "kernel-bridge"\nversion = "7"\n'
    )
    # A build backend of a few lines, so that pip needs no index.
    (tree / "backend.py").write_text(
        "import zipfile\n\n\ndef build_wheel(folder, settings=None, metadata=None):\n"
        "    name = 'kernel_bridge-7-py3-none-any.whl'\n"
        "    info = 'kernel_bridge-7.dist-info/'\n"
        "    with zipfile.ZipFile(f'{folder}/{name}', 'w') as file:\n"
        "        file.writestr('revision.py', 'NUMBER = 7\\n')\n"
        "        file.writestr(info + 'METADATA', 'Metadata-Version: 2.1\\nName: kernel-bridge\\nVersion: 7\\n')\n"
        "        file.writestr(info + 'WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n"
        "        file.writestr(info + 'RECORD', '')\n"
        "    return name\n"
    )
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    (built,) = build([Wanted("head", COMMITS[1], tree, ())], tmp_path / "kept")
    program = "import revision, sys; print(revision.NUMBER, sys.prefix)"
    done = subprocess.run([built.python, "-c", program], capture_output=True, text=True, check=True)
    number, prefix = done.stdout.split()
    assert number == "7"
    assert prefix == str(built.python.parents[1])
    assert prefix != sys.prefix
