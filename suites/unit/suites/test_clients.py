"""The session of clients: which lines of a library it changes, and when a library is worse with the bridge."""

import importlib
import json
import sys

import pytest

from suites.clients import __main__ as session
from suites.clients.client import Client
from suites.clients.inside import Edits, Outcomes

ROW = Client(requirements=(), edits={}, tests=(), different={"test_b": "on purpose"})


@pytest.fixture
def library(tmp_path, monkeypatch):
    text = "def call():\n    return 'own'\n\n\ndef other():\n    return 'own'\n"
    (tmp_path / "a_client.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path / "a_client.py"
    sys.modules.pop("a_client", None)


def changed(edits, monkeypatch):
    monkeypatch.setattr(sys, "meta_path", [edits, *sys.meta_path])
    return importlib.import_module("a_client")


def test_every_line_that_matches_is_changed_and_counted_and_the_file_stays(library, monkeypatch):
    before = library.read_text()
    edits = Edits({"a_client": {"return 'own'": "return 'ours'"}})
    module = changed(edits, monkeypatch)
    assert (module.call(), module.other(), edits.changed, library.read_text()) == ("ours", "ours", 2, before)


def test_an_edit_that_matches_no_line_is_an_error(library, monkeypatch):
    with pytest.raises(ValueError, match="no line of a_client matches"):
        changed(Edits({"a_client": {"return": "pass"}}), monkeypatch)  # a part of a line is none


def test_a_crash_loses_no_outcome_and_what_did_not_run_is_worse(tmp_path):
    outcomes = Outcomes(tmp_path / "lines", None)
    outcomes.write(test="test_a", outcome="passed")
    assert [json.loads(line)["test"] for line in outcomes.file.read_text().splitlines()] == ["test_a"]
    own = {"test_a": "passed", "test_c": "passed", "x::test_b": "passed", "test_d": "failed"}
    found = session.Found(ROW, own, ours={"test_a": "passed", "x::test_b": "failed"})
    assert (found.worse(), found.failed()) == (["test_c"], True)
