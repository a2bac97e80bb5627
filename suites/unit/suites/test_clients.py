"""The session of clients: which lines of a library it changes, and when a library is worse with the bridge."""

import importlib
import json
import sys

import pytest

from suites.clients import __main__ as session
from suites.clients.client import Client
from suites.clients.inside import Edits, Outcomes

ROW = Client(requirements=(), edits={}, tests=(), different={"test_b": "on purpose"})


def test_every_line_that_matches_is_changed_and_counted_the_file_stays_and_no_match_is_an_error(tmp_path, monkeypatch):
    file, text = tmp_path / "a_client.py", "def call():\n    return 'own'\n\n\ndef other():\n    return 'own'\n"
    file.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    edits = Edits({"a_client": {"return 'own'": "return 'ours'"}})
    monkeypatch.setattr(sys, "meta_path", [edits, *sys.meta_path])
    module = importlib.import_module("a_client")
    del sys.modules["a_client"]
    assert (module.call(), module.other(), edits.changed, file.read_text()) == ("ours", "ours", 2, text)
    edits.edits = {"a_client": {"return": "pass"}}  # a part of a line is none
    with pytest.raises(ValueError, match="no line of a_client matches"):
        importlib.import_module("a_client")


def test_a_crash_loses_no_outcome_and_what_did_not_run_is_worse(tmp_path):
    outcomes = Outcomes(tmp_path / "lines", None)
    outcomes.write(test="test_a", outcome="passed")
    assert [json.loads(line)["test"] for line in outcomes.file.read_text().splitlines()] == ["test_a"]
    own = {"test_a": "passed", "test_c": "passed", "x::test_b": "passed", "test_d": "failed"}
    found = session.Found(ROW, own, ours={"test_a": "passed", "x::test_b": "failed"})
    assert (found.worse(), found.failed()) == (["test_c"], True)
