"""The deep tests exist, and CI keeps a cell of each check."""

import re

import pytest

from suites.cells.selection import Selection
from suites.checks.register import checks
from suites.unit.nightly import DEEP, is_deep_check
from suites.unit.structure.house import PROJECT


@pytest.mark.parametrize("beginning", DEEP)
def test_a_deep_test_exists(beginning):
    path, _, name = beginning.partition("::")
    assert (PROJECT / path).exists(), "renamed or deleted?"
    for part in filter(None, name.partition("[")[0].split("::")):
        assert re.search(rf"^ *(def|class) {part}\b", (PROJECT / path).read_text("utf-8"), re.M)


def test_every_check_runs_in_ci(request):
    selection = Selection.of(request.config.option, "kb_")
    for check in checks():
        operators = {parameter.values[0].operator.name for parameter in check.cells.chosen(selection)}
        assert not operators or not all(is_deep_check(check.name, operator) for operator in operators), check.name
