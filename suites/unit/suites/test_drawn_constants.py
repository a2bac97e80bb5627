"""Hypothesis draws constants of a user's operators alone: reading other files takes seconds, and varies by place."""

import json
import sys
from types import SimpleNamespace

import pytest

from suites.sessions import preparation
from suites.unit.processes import output

PROGRAM = """\
import json, sys
from hypothesis import strategies as st
from hypothesis.internal.conjecture import providers

read = []
found_in = providers.constants_from_module

def noted(module, **options):
    read.append(module.__name__)
    return found_in(module, **options)

providers.constants_from_module = noted

import lib
import suites.ops
from suites.checks.drawn import drawn_profile
from suites.checks.drawn.drawing import for_drawn

drawn_profile.register_profile()
if sys.argv[1] == "prepared":
    drawn_profile.draw_no_constants_of(list(sys.modules))
import my_ops
import suites.checks.drawn.vast

def draw_often(data):  # only some of the numbers are constants
    for _ in range(200):
        data.draw(st.integers())

for_drawn(draw_often)
print(json.dumps(read))
"""


def test_the_modules_of_a_user_are_those_in_her_folder_or_beside_her_operators(tmp_path, monkeypatch):
    """She may have imported them before the session prepares itself: in a conftest.py, or with ``--jobs 0``."""
    places = {"in_folder": "here/a.py", "below": "here/pkg/b.py", "beside": "there/c.py", "other": "elsewhere/d.py"}
    for name, place in places.items():
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(__file__=str(tmp_path / place)))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    config = SimpleNamespace(option=SimpleNamespace(kb_operators=[str(tmp_path / "there" / "my_ops.py")]))
    others = preparation._others_modules(config)
    assert set(places) & set(others) == {"other"}
    assert "json" in others


@pytest.mark.parametrize("state", ["prepared", "as it is"])
def test_constants_come_from_the_users_file_alone(tmp_path, state):
    (tmp_path / "my_ops.py").write_text("LIMIT = 123456\n")
    (tmp_path / "lib.py").write_text("MOST = 654321\n")
    (tmp_path / "program.py").write_text(PROGRAM)
    read = json.loads(output(tmp_path / "program.py", state, HYPOTHESIS_STORAGE_DIRECTORY=str(tmp_path / "hypothesis")))
    assert "my_ops" in read
    assert ("lib" in read) == (state != "prepared")
    assert [name for name in read if name.startswith(("bridge", "suites", "reports"))] == []
