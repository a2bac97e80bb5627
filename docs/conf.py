"""Settings of the documentation site; `nox -s docs` builds it."""

from __future__ import annotations

import dataclasses
import inspect
import os
import sys
from pathlib import Path

import jupytext
import msgspec

PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT))
os.environ.setdefault("JAX_PLATFORMS", "cpu")  # autodoc imports the packages; nothing here needs a GPU


import bridge  # noqa: E402
from bridge.table import LANGUAGES  # noqa: E402
from reports.pages.columns import documentation  # noqa: E402
from suites.checks.register import checks  # noqa: E402

project = "kernel-bridge"
author = "The kernel-bridge authors"
copyright = "the kernel-bridge authors"
release = version = bridge.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
# A tutorial is a percent-format script, which `percent_scripts` below makes Markdown of.
source_suffix = {".md": "markdown", ".py": "markdown"}
exclude_patterns = ["conf.py", "tutorials/__init__.py", "tutorials/test_*.py", "**/__pycache__"]

# Every reference must lead somewhere; `sphinx-build -W` makes a warning an error.
nitpicky = True
# Links to source files lead out of the site. suites/unit/docs/test_links.py checks that they exist.
suppress_warnings = ["myst.xref_missing"]
nitpick_ignore_regex = [
    # Other projects: the site is built without a network, so it has no list of their names.
    ("py:.*", r"(collections|contextlib|ctypes|enum|jax|jaxlib|numba|numpy|os|pandas|pathlib|typing|warp|wp|np)\b.*"),
    ("py:.*", r"(Any|Array|Callable|DisabledSafetyCheck|Exported|Iterable|Iterator|Mapping|Sequence|Literal|Path)"),
    # Modules that are named for readers of the source and have no page.
    ("py:mod", r"(bridge|suites|reports)\..*"),
    ("py:func", r"bridge\.languages\.warp\.inputs\.declare_writes"),
    ("py:class", r"bridge\.adapters\.brainevent\.BraineventOperator"),
    ("py:class", r"suites\.cells\.tables\.CellTable|suites\.checks\.register\.Test"),
    ("py:class", r"suites\.kernels\.kernel\.(AtLeast|Derivative)"),
    ("py:class", r"reports\.records\.boundaries\.End"),
    ("py:class", r"bridge\.(operator\.(registry\.Snapshot|operator_call\.(Rules|Parameters))|table\.Language)"),
    (
        "py:.*",
        r"(ArithmeticError|AssertionError|Exception|ImportError|LookupError|NotImplementedError|OSError"
        r"|RuntimeError|TypeError|ValueError|UserWarning|Enum|StrEnum)",
    ),
]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_custom_sections = [("Columns", "params_style")]

html_theme = "furo"
html_title = f"kernel-bridge {release}"
html_copy_source = False
html_show_sourcelink = False


def percent_scripts(app, docname, source):
    """Makes Markdown of a percent-format script. Nothing is executed: the tutorials run as tests."""
    if Path(app.env.doc2path(docname)).suffix == ".py":
        notebook = jupytext.reads(source[0], "py:percent")
        notebook.metadata = {"jupytext": {"notebook_metadata_filter": "-all"}}
        # What stands before the first marker is a comment for tools.
        if notebook.cells and notebook.cells[0].cell_type == "code":
            notebook.cells = notebook.cells[1:]
        source[0] = jupytext.writes(notebook, "md")


def tables(app, docname, source):
    """Puts what the code lists into the pages: columns, fields of records, checks, functions and errors."""
    rows = [f"| `{check.name}` | {check.sees} |" for check in checks()]
    source[0] = source[0].replace("<!-- checks -->", "\n".join(["| check | what it finds |", "| --- | --- |", *rows]))
    source[0] = source[0].replace("<!-- columns -->", documentation().replace("### ", "## "))
    functions = dict.fromkeys(each.function for each in LANGUAGES.values() if each.function)
    source[0] = source[0].replace("<!-- functions of the languages -->", entries("autofunction", functions))
    public = {name: getattr(bridge, name) for name in bridge.__all__}
    errors = [name for name, each in public.items() if inspect.isclass(each) and issubclass(each, Exception)]
    source[0] = source[0].replace("<!-- errors and warnings -->", entries("autoexception", errors))


def entries(directive, names):
    """Entries of the reference for public names of the bridge."""
    return "\n".join(["```{eval-rst}", *[f".. {directive}:: bridge.{name}" for name in names], "```"])


NOTHING = "\\ "
"""Renders as nothing."""


def no_types_before_colons(app, what, name, obj, options, lines):
    """Keeps napoleon from reading "A function of the arrays: ..." as a type and its description.

    In these docstrings, signatures have the types. Napoleon looks for a colon in the first line of a "Returns" section,
    and of the text of an attribute, so another first line is put there.
    """
    if what in ("attribute", "property") and lines:
        lines.insert(0, NOTHING)
    for number, line in reversed([*enumerate(lines)]):
        if line.strip() == "Returns:":
            lines.insert(number + 1, " " * (line.index("R") + 4) + NOTHING)


def fields_by_name(app, what, name, obj, options, signature, return_annotation):
    """Shows the fields of data by name alone: their types are listed below, and a default may be a function."""
    if what == "class" and (dataclasses.is_dataclass(obj) or issubclass(obj, msgspec.Struct)):
        parameters = inspect.signature(obj).parameters.values()
        names = [each.name if each.default is each.empty else f"{each.name}=..." for each in parameters]
        return f"({', '.join(names)})", None
    return None


def setup(app):
    """Changes the pages as Sphinx reads them."""
    app.connect("source-read", percent_scripts)
    app.connect("source-read", tables)
    app.connect("autodoc-process-docstring", no_types_before_colons, priority=400)  # before napoleon
    app.connect("autodoc-process-signature", fields_by_name)
