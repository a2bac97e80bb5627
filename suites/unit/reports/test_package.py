"""The public names of `reports`, and the cost of its import."""

import inspect

import reports
from suites.unit.processes import output


def test_the_public_names_are_the_imported_ones():
    # The linter keeps them sorted.
    assert len(reports.__all__) == len({*reports.__all__})
    assert all(hasattr(reports, name) for name in reports.__all__)
    modules = {"TYPE_CHECKING", "Any", *(name for name, value in vars(reports).items() if inspect.ismodule(value))}
    assert {name for name in vars(reports) if not name.startswith("_")} - modules <= {*reports.__all__}


def test_importing_is_cheap_and_independent():
    code = "import reports, sys; print(*{'pandas', 'numpy', 'rich', 'jax', 'bridge', 'suites'} & {*sys.modules})"
    assert output("-c", code) == ""


def test_nothing_in_reports_imports_jax_or_its_neighbours():
    code = (
        "import importlib, pkgutil, reports, sys\n"
        "for module in pkgutil.walk_packages(reports.__path__, 'reports.'):\n"
        "    importlib.import_module(module.name) \n"
        "print(*{'jax', 'numba', 'bridge', 'suites'} & {*sys.modules})"
    )
    assert output("-c", code) == ""
