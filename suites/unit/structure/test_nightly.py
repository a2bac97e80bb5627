"""CI leaves out the deep tests and no others, keeps a cell of each check, and says what it left out."""

import re

import pytest

from suites.cells.selection import Selection
from suites.checks.register import checks
from suites.unit.nightly import DEEP, is_deep_check, is_deep_test
from suites.unit.processes import output, run
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


def test_the_table_of_deep_tests_is_what_pytest_leaves_out_and_it_says_so():
    deep = "suites/unit/suites/test_injected_slowdowns.py"
    assert is_deep_test(deep)
    command = ("-m", "pytest", "-q", "-p", "no:cacheprovider", deep)
    done = run(*command, cwd=PROJECT)
    assert done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED
    assert '1 nightly tests were left out: add -m ""' in done.stdout
    assert "1 test collected" in output(*command, "-m", "", "--collect-only", cwd=PROJECT)
