"""Environment variables of this project: all are known, and others are refused."""

import re

import pytest

from suites.cells.selection import SelectionError
from suites.commands.variables import NAMES, PREFIX, require_known_variables
from suites.unit.docs.pages import PROJECT


def test_every_variable_in_the_sources_is_known():
    found = set()
    for package in ("bridge", "reports", "suites"):
        for path in (PROJECT / package).rglob("*.py"):
            if "unit" not in path.parts:
                found |= set(re.findall(rf'= "{PREFIX}([A-Z_]+)"', path.read_text(encoding="utf-8")))
    assert found == set(NAMES)


def test_a_misspelt_variable_is_refused_with_the_one_that_was_meant(monkeypatch):
    require_known_variables()
    monkeypatch.setenv("KERNEL_BRIDGE_RUN", "here")
    with pytest.raises(SelectionError, match=r"KERNEL_BRIDGE_RUN is unknown\. Did you mean KERNEL_BRIDGE_RUNS\?"):
        require_known_variables()
