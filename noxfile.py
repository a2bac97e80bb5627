"""Sessions of kernel-bridge. `nox -l` lists them; arguments after `--` go to the command of the session."""

from __future__ import annotations

import re
from pathlib import Path

import nox

nox.needs_version = ">=2025.2.9"
nox.options.sessions = ["lint", "typing", "tests"]
nox.options.reuse_existing_virtualenvs = True
nox.options.default_venv_backend = "venv"

PYPROJECT = nox.project.load_toml("pyproject.toml")

WORKERS = ("-n", "auto", "--maxprocesses", "8", "--dist", "worksteal")
"""A worker for each core, each with kernels of its own to compile."""


def install(session: nox.Session, *groups: str) -> None:
    """Installs the project in place, with the named dependency groups, and for CUDA if the arguments ask for that."""
    project = ".[cuda13]" if any(argument.endswith("cuda") for argument in session.posargs) else "."
    session.install("-e", project, *nox.project.dependency_groups(PYPROJECT, *groups))


@nox.session
def tests(session: nox.Session) -> None:
    """Run every test: correctness of each operator, backend and transformation, and the unit tests."""
    install(session, "test")
    session.run("pytest", *WORKERS, *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """Check and time every backend, then print the table (`-- --profile full` for all sizes)."""
    install(session)
    session.run("python", "-m", "suites", "bench", *session.posargs)


@nox.session
def validate(session: nox.Session) -> None:
    """Check every operator, backend, dtype and transformation, record it, and print the grid (`-- my_ops.py`)."""
    install(session)
    session.run("python", "-m", "suites", "validate", *session.posargs)


@nox.session
def mutants(session: nox.Session) -> None:
    """Run the checks on kernels that are broken on purpose, and print which check catches which."""
    install(session)
    session.run("python", "-m", "suites", "mutants", *session.posargs)


@nox.session
def show(session: nox.Session) -> None:
    """Show a recorded run again (`-- latest`, `-- RUN --format markdown`)."""
    install(session)
    session.run("python", "-m", "reports", "show", *session.posargs)


@nox.session
def dispatch(session: nox.Session) -> None:
    """Measure what one call costs, beside a C++ handler and the other ways to call a kernel."""
    install(session)
    session.run("python", "-m", "suites.dispatch", *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation site, and fail on broken links."""
    install(session, "docs")
    session.run("python", "docs/pictures.py", "--check")
    session.run("pytest", "-q", "suites/unit/docs/test_links.py")
    # A fresh environment (-E), because Sphinx says what is wrong with a page only when it reads it.
    session.run("sphinx-build", "-W", "--keep-going", "-E", "-q", "-d", "build/doctrees", "docs", "build/docs")


@nox.session
def lint(session: nox.Session) -> None:
    """Check style and formatting."""
    session.install(*nox.project.dependency_groups(PYPROJECT, "lint"))
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session
def typing(session: nox.Session) -> None:
    """Check types."""
    install(session, "test", "typing")
    session.run("mypy", *session.posargs)


def minimum(requirement: str) -> str:
    """The constraint that pins a requirement to its lower bound; constraints have no extras."""
    return re.sub(r"\[.*?\]", "", requirement).replace(">=", "==")


@nox.session
def minimums(session: nox.Session) -> None:
    """Run the tests with the lowest version of each dependency that pyproject.toml declares."""
    declared = [*PYPROJECT["project"]["dependencies"], *nox.project.dependency_groups(PYPROJECT, "test")]
    constraints = Path(session.create_tmp(), "minimums.txt")
    constraints.write_text("".join(minimum(requirement) + "\n" for requirement in declared if ">=" in requirement))
    session.install("-e", ".", *nox.project.dependency_groups(PYPROJECT, "test"), "-c", str(constraints))
    session.run("pytest", *session.posargs)
