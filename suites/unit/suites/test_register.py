"""Checks register themselves, and a file of checks with a mistake is refused with what to do."""

from __future__ import annotations

import inspect

import pytest

from suites.cells.tables.calls import KERNELS
from suites.checks import folders, register
from suites.checks.register import CheckError, check, check_of, check_of_id, checks


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    """Checks that a test registers are forgotten after it."""
    checks()
    monkeypatch.setattr(register, "_REGISTERED", dict(register._REGISTERED))
    register._checks_of.cache_clear()
    yield
    register._checks_of.cache_clear()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(folders.VARIABLE, str(tmp_path))
    return tmp_path


def test_every_file_of_the_folder_is_one_check():
    assert [each.file for each in sorted(checks(), key=lambda each: each.file)] == folders.files()
    assert all(folders.is_built_in(each.file) for each in checks())


def test_checks_are_known_by_name_and_by_test():
    names = [each.name for each in checks()]
    assert len(set(names)) == len(names)
    assert names[:3] == ["eager", "repeat", "endurance"]
    for each in checks():
        assert check_of(each.file, each.function) is each
        assert check_of_id(f"suites/checks/{each.file.name}::{each.function}[add-numba-f32-33-cpu]") is each
        assert inspect.cleandoc(each.sees) == each.sees != ""
    assert check_of_id("suites/unit/suites/test_ptx.py::test_kernel_compiles[add]") is None


def test_a_name_is_taken_once():
    with pytest.raises(
        CheckError, match=r"'vmap' is the name of test_each_element_of_a_batch_is_right in .*Rename one"
    ):

        @check("vmap", sees="nothing new", cells=KERNELS)
        def test_other(case):
            pass


def test_a_check_takes_a_case_and_says_what_it_sees():
    with pytest.raises(CheckError, match="test_without_a_case: has no parameter 'case'"):

        @check("caseless", sees="nothing", cells=KERNELS)
        def test_without_a_case():
            pass

    with pytest.raises(CheckError, match="says nothing of what it sees"):

        @check("silent", sees=" ", cells=KERNELS)
        def test_silent(case):
            pass


def test_a_test_that_is_not_registered_is_refused(folder):
    (folder / "test_lost.py").write_text("def test_lost(case):\n    pass\n")
    with pytest.raises(CheckError, match=r"test_lost.py: test_lost is not registered. Decorate it: @check\('name'"):
        checks()


def test_a_file_that_cannot_be_imported_is_named(folder):
    (folder / "test_broken.py").write_text("1 / 0\n")
    with pytest.raises(CheckError, match=r"test_broken.py: cannot be imported, ZeroDivisionError: division by zero"):
        checks()


def test_an_order_puts_a_check_between_others(folder):
    (folder / "test_early.py").write_text(
        "from suites.cells.tables.calls import KERNELS\nfrom suites.checks.register import check\n\n\n"
        "@check('early', sees='what comes early', cells=KERNELS, order=15)\ndef test_early(case):\n    pass\n"
    )
    assert [each.name for each in checks()][:3] == ["eager", "early", "repeat"]


@pytest.mark.parametrize("name", ["", "  ", None])
def test_a_check_has_a_name(name):
    with pytest.raises(CheckError, match=r"test_nameless: its name is .* Give @check a name"):

        @check(name, sees="something", cells=KERNELS)
        def test_nameless(case):
            pass


def test_a_check_runs_on_a_table_of_cells():
    with pytest.raises(CheckError, match="test_all: cells is 'all', expected a table of cells, such as KERNELS"):

        @check("of all", sees="something", cells="all")
        def test_all(case):
            pass


def test_a_class_of_tests_is_refused(folder):
    (folder / "test_class.py").write_text("class TestIt:\n    def test_it(self, case):\n        pass\n")
    with pytest.raises(CheckError, match=r"test_class\.py: TestIt is a class of tests. Make each check a function"):
        checks()


def test_a_folder_that_is_missing_or_has_no_check_is_refused(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text("")
    for path, message in ((tmp_path / "nosuch", "there is no folder .*nosuch"), (tmp_path, "holds no test_")):
        monkeypatch.setenv(folders.VARIABLE, str(path))
        with pytest.raises(CheckError, match=message):
            checks()
