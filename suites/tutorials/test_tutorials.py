"""Tutorials run in processes of their own, as a reader would run them: their asserts are the tests."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = sorted(path for path in Path(__file__).parent.glob("[!_]*.py") if not path.name.startswith("test_"))
MARKER = re.compile(r"^# %%(?: (\[markdown\]))?$")

tutorial = pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)


def cells(path):
    """The cells of a percent script: the line of the marker, whether the cell is markdown, its lines.

    What comes before the first marker belongs to no cell; only comments may.
    """
    found: list[tuple[int, bool, list[str]]] = [(0, True, [])]
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if line.startswith("# %%"):
            marker = MARKER.match(line)
            assert marker, f"{path.name}:{number}: {line!r} is not a marker of a cell"
            found.append((number, marker[1] is not None, []))
        else:
            found[-1][2].append(line)
    return found


def test_there_are_tutorials():
    assert SCRIPTS


@tutorial
def test_every_cell_stands_alone(path):
    for number, markdown, lines in cells(path):
        where = f"{path.name}:{number}"
        if markdown:
            assert all(line == "#" or line.startswith("# ") for line in lines if line), f"{where}: code among markdown"
        else:
            code = ast.parse("\n".join(lines), filename=where)
            assert code.body, f"{where}: an empty cell"


@tutorial
def test_it_runs_without_warnings_and_says_something(path):
    result = subprocess.run(
        [sys.executable, "-W", "error", str(path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip()


def test_the_examples_of_the_readme_run():
    text = Path(__file__).parents[2].joinpath("README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    assert blocks
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {"__name__": "readme"})
