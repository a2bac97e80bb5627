"""What importing `reports` gives, and what it costs."""

import pytest

import reports
from suites.unit.processes import output


def test_all_names_exist_once():
    assert len(reports.__all__) == len({*reports.__all__})
    assert all(hasattr(reports, name) for name in reports.__all__)


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = reports.nothing


def test_importing_is_cheap_and_independent():
    code = "import reports, sys; print(*{'pandas', 'numpy', 'rich', 'jax', 'bridge', 'suites'} & {*sys.modules})"
    assert output("-c", code) == ""


def test_nothing_in_reports_imports_jax_or_its_neighbours():
    code = (
        "import importlib, pkgutil, reports, sys\n"
        "for name in [module.name for module in pkgutil.iter_modules(reports.__path__)]:\n"
        "    importlib.import_module('reports.' + name)\n"
        "print(*{'jax', 'numba', 'bridge', 'suites'} & {*sys.modules})"
    )
    assert output("-c", code) == ""
