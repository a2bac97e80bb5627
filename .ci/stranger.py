"""Types every command of the documentation in empty environments, as a stranger would, and checks its output.

The commands are read from the ``console`` blocks of README.md and of the pages in ``docs/``. Each must have an
entry in :data:`EXPECTED`: the folder that it is typed in, arguments that shorten it for CI, and the expected output.
The walk fails at a command without an entry. She has two terminals, for two environments: the commands of nox and all
others run beside each other, each in the order of the pages.

Usage: ``python .ci/stranger.py REPOSITORY [--night]``. The walk clones the repository into an empty folder. At night
she also types the commands that are left out by day.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

CLONE, OWN, OTHER = "clone", "own", "other"
"""The folders that a stranger works in: her clone of the project, her own project, and another project of hers."""

PAGES = (
    "README.md",
    "docs/index.md",
    "docs/validate.md",
    "docs/bench.md",
    "docs/compare.md",
    "docs/report.md",
    "docs/commands.md",
    "docs/continuous-integration.md",
)


@dataclass(frozen=True)
class Expected:
    """The expected effect of a command.

    Attributes:
        where: The folder that it is typed in.
        prints: Regular expressions that its output contains.
        shorter: Arguments that make it short enough for CI.
        code: Its exit code.
        at_night: Why it is typed at night only: what shows the same by day.
    """

    where: str
    prints: tuple[str, ...] = ()
    shorter: str = ""
    code: int = 0
    at_night: str = ""


_TABLE = r"Cells on cpu.*Summary of cpu"
_GRID = r"Validation on cpu.*PASSED.*[1-9]\d* passed, 0 failed.*Checks on cpu"
_FAST = "--processes 1"  # each process imports everything again
_ONE = f"--backend numba --size 4096 {_FAST}"

EXPECTED = {
    "python -m pip install nox": Expected(CLONE),
    "nox -s bench": Expected(
        CLONE,
        (_TABLE, r"numba_parallel.*warp.*warp_tile", r"0 failed", r"show them again: kernel-bridge show"),
        f"-- --operator matvec {_FAST}",  # it has a kernel for every CPU backend
    ),
    "nox -s validate": Expected(
        CLONE, (_GRID, r"add +PASSED"), "-- --profile quick --operator add --backend numba --jobs 1"
    ),
    "python -m pip install .": Expected(CLONE),
    'python -m pip install ".[suites]"': Expected(CLONE),
    "kernel-bridge validate my_ops.py": Expected(OWN, (_GRID, r"cube +PASSED"), "--profile quick"),
    "kernel-bridge validate my_ops.py --executor cluster:make": Expected(
        OWN, (r"^(?!.*is lost)", _GRID, r"cube +PASSED"), "--profile quick"
    ),
    "pytest -p suites.plugin --pyargs suites.bench.speed --kb-operator add --benchmark-json times.json": Expected(
        OWN, (r"[1-9]\d* passed",), "--kb-backend numba --kb-size 4096 --kb-dtype float32"
    ),
    "kernel-bridge bench my_ops.py": Expected(OWN, (r"cube +f32 .*\d.jnp", _TABLE)),
    "kernel-bridge list my_ops.py": Expected(OWN, (r"Operators on cpu.*cube.*numba +f32 f64",)),
    "kernel-bridge show": Expected(OWN, (r"Runs in runs.*validate quick.*full",)),
    "kernel-bridge compare HEAD~1 --gate": Expected(
        OWN,
        (r"result +fails.*SLOWER: cube-numba-f32-4096-cpu", r"processes of each revision"),
        "my_ops.py --size 4096 --dtype f32 --processes 3",
        code=1,
        at_night="the gate judges the runs of compare HEAD~1",
    ),
    "kernel-bridge compare previous latest": Expected(
        OWN, (r"result +fails.*SLOWER: cube-numba-f32-4096-cpu",), "--gate", code=1
    ),
    # Before it, the stranger commits her operators, and then a slower kernel: see two_commits.
    "kernel-bridge compare HEAD~1": Expected(
        OWN,
        (r"operators: my_ops.py", r"processes of each revision", r"Comparison of .*cube.*SLOWER"),
        "--size 4096 --dtype f32 --processes 3",
        code=1,
    ),
    "kernel-bridge show latest --sort ratio --only slower": Expected(
        OWN, (r"slower: \d+ of \d+ cells.*sorted by ratio",)
    ),
    "kernel-bridge show latest --format csv": Expected(OWN, (r"operator,operator_version,backend",)),
    'python -m pip install ".[report]"': Expected(CLONE),
    "kernel-bridge report latest": Expected(OWN, (r"report.html: \d+\.\d MB\. Open it in a browser\.",)),
    "kernel-bridge report previous latest --output before-and-after.html": Expected(
        OWN, (r"before-and-after.html: \d+\.\d MB\.",)
    ),
    "pytest -p suites.plugin --pyargs suites.checks --kb-operators my_ops.py"
    " -n 2 --timeout 300 --timeout-method thread": Expected(
        OWN, (r"[1-9]\d* passed",), "--kb-profile quick -k 'compiled or drawn'"
    ),
    "kernel-bridge bench --operator add": Expected(OWN, (_TABLE,), _ONE),
    "kernel-bridge bench --profile full": Expected(OWN, (_TABLE,), f"--operator add --dtype int32 {_ONE}"),
    "kernel-bridge bench --peers --operator cumsum": Expected(
        OWN,
        (_TABLE,),
        f"--size 4096 --backend jnp --backend numba --backend numpy {_FAST}",
    ),
    "kernel-bridge bench --resume latest": Expected(
        OWN, (_TABLE,), f"--profile full --operator add --dtype int32 {_ONE}"
    ),
    "kernel-bridge validate --operator add -- -k vmap": Expected(OWN, (_GRID,), "--backend numba --jobs 1"),
}


def commands(page: Path) -> list[str]:
    """The commands of a page that need no GPU, in order."""
    found = []
    for match in re.finditer(r"(<!-- gpu -->\n)?^```console\n(.*?)^```", page.read_text("utf-8"), re.M | re.S):
        lines = [line.removeprefix("$ ") for line in match[2].splitlines()]
        if match[1]:
            for line in lines:
                print(f"skipped, needs an NVIDIA GPU: {line}", flush=True)
        else:
            found += lines
    return found


def files(page: Path) -> dict[str, str]:
    """The files that a page shows, by name."""
    pattern = r"<!-- file: (\S+) -->\n```python\n(.*?)^```"
    return {match[1]: match[2] for match in re.finditer(pattern, page.read_text("utf-8"), re.M | re.S)}


def terminal(command: str) -> str:
    """The terminal that a command is typed in: ``nox`` or ``own``, which also names its environment."""
    return "nox" if re.search(r"\bnox\b", command) else "own"


def _say(command: str, *lines: str) -> None:
    """Prints lines about a command, together."""
    print("".join(f"[{terminal(command)}] {line}\n" for line in lines), end="", flush=True)


class Walk:
    """A stranger with two empty environments, a clone and a folder of her own."""

    def __init__(self, repository: Path, root: Path, *, night: bool):
        self.night = night
        self.folders = {CLONE: root / "kernel-bridge", OWN: root / "own", OTHER: root / "other"}
        subprocess.run(["git", "clone", "--quiet", str(repository), str(self.folders[CLONE])], check=True)
        self.folders[OWN].mkdir()
        self.folders[OTHER].mkdir()
        self.environments = {"nox": root / "nox-environment", "own": root / "own-environment"}
        for environment in self.environments.values():
            venv.create(environment, with_pip=True)
        self.failed: list[str] = []
        self.times: list[tuple[float, str]] = []
        self._home = root / "home"
        self._home.mkdir()

    def variables(self, command: str) -> dict[str, str]:
        """The environment variables of a fresh login, with the environment of a command active."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTHON", "PYTEST", "KERNEL", "NOX"))
        }
        kept.pop("VIRTUAL_ENV", None)
        environment = self.environments[terminal(command)]
        path = f"{environment}/bin{os.pathsep}{kept['PATH']}"
        return kept | {"PATH": path, "HOME": str(self._home), "COLUMNS": "100", "NO_COLOR": "1"}

    def type(self, command: str) -> None:
        """Types a command of the documentation, made shorter, and checks its exit code and output."""
        expected = EXPECTED.get(command)
        if expected is None:
            self._fail(command, "the documentation names it, but .ci/stranger.py does not know what it prints")
            return
        if expected.at_night and not self.night:
            _say(command, f"left to the night: {command}: {expected.at_night}")
            return
        options, separator, of_pytest = command.partition(" -- ")
        code, output = self.run(f"{options} {expected.shorter}{separator}{of_pytest}".strip(), expected.where)
        if code != expected.code:
            self._fail(command, f"exit code {code}, expected {expected.code}", output)
        for pattern in expected.prints:
            if not re.search(pattern, output, re.S):
                self._fail(command, f"it does not print {pattern!r}", output)

    def run(self, command: str, where: str) -> tuple[int, str]:
        """Runs a command, and prints how long it took; returns its exit code and output."""
        _say(command, f"$ {command}")
        begun = time.monotonic()
        process = subprocess.Popen(
            command, shell=True, cwd=self.folders[where], env=self.variables(command), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        assert process.stdout is not None
        lines, marks = [], dict[str, float]()
        for line in process.stdout:
            lines.append(line)
            if line.startswith("kernel-bridge: "):
                marks.setdefault("first line", time.monotonic() - begun)
            if re.search(r" jnp +[\d.]+ (ns|µs|ms)$", line):
                marks.setdefault("first cell", time.monotonic() - begun)
        seconds = time.monotonic() - begun
        code = process.wait()
        self.times.append((seconds, command))
        shown = "".join(f", {name} after {mark:.1f} s" for name, mark in marks.items())
        _say(command, f"  exit code {code}, {seconds:.1f} s{shown}")
        return code, "".join(lines)

    def expect(self, what: str, true: bool, output: str = "") -> None:
        """Notes a failure if ``true`` is false."""
        if not true:
            self._fail(what, "is not so", output)

    def _fail(self, command: str, reason: str, output: str = "") -> None:
        lines = [f"  FAILED: {command}: {reason}"]
        if output:
            lines += ["  its output ends:", *(f"  | {line}" for line in output.splitlines()[-40:])]
        _say(command, *lines)
        self.failed.append(f"{command}: {reason}")


def before_installing(walk: Walk) -> None:
    """Writes the stranger's own tests. Their options, markers and a package have names that we use too."""
    for folder in (walk.folders[OWN], walk.folders[OTHER]):
        (folder / "conftest.py").write_text(
            "def pytest_addoption(parser):\n"
            "    for name in ('--device', '--profile', '--operator', '--backend', '--record', '--summary'):\n"
            "        parser.addoption(name)\n"
        )
        (folder / "pytest.ini").write_text("[pytest]\nmarkers = speed: hers\naddopts = -p no:cacheprovider\n")
    other = walk.folders[OTHER]
    (other / "reports").mkdir()
    (other / "reports" / "__init__.py").write_text("HERS = True\n")
    (other / "test_other.py").write_text(
        "import pytest, reports\n\n\n@pytest.mark.speed\ndef test_speed():\n    assert reports.HERS\n"
    )


def own_session(walk: Walk, when: str) -> None:
    """Checks that the stranger's own tests pass, and that pytest shows no plugin of ours."""
    code, output = walk.run("python -B -W error -m pytest test_other.py", OTHER)
    walk.expect(f"her own tests pass {when}", code == 0 and "1 passed" in output, output)
    walk.expect(f"pytest shows no plugin of ours {when}", "kernel" not in output, output)


def light_install(walk: Walk) -> None:
    """Checks that ``pip install .`` installs no test tools, and that the commands name the extra that they need."""
    code, output = walk.run("python -m pip list --format=freeze", OWN)
    packages = [line for line in output.splitlines() if "==" in line]
    folder = next(walk.environments["own"].glob("lib/python*/site-packages"))
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file() and not file.is_symlink())
    print(
        f"light install: {len(packages)} packages, {size / 2**20:.0f} MiB in site-packages, pip and pytest among them"
    )
    names = {line.partition("==")[0].lower() for line in packages}
    walk.expect(
        "the light install has no test tools", not names & {"pandas", "rich", "warp-lang", "pytest-xdist"}, output
    )
    code, output = walk.run('python -c "import bridge; print(bridge.numba_kernel)"', OWN)
    walk.expect("import bridge works", code == 0, output)
    code, output = walk.run("kernel-bridge bench my_ops.py", OWN)
    lines = output.strip().splitlines()
    walk.expect(
        "commands name the extra that they need", code == 3 and len(lines) == 1 and "[suites]" in output, output
    )


def two_commits(walk: Walk) -> None:
    """Commits the stranger's operators, and then a kernel that does its work eight times."""
    folder = walk.folders[OWN]
    operators = (folder / "my_ops.py").read_text("utf-8")
    line = "    for i in range(x.size):\n        out[i] = x[i] * x[i] * x[i]\n"
    again = "".join(f"    {each}\n" for each in ("for again in range(8):", *line.splitlines()))
    slower = operators.replace(line, again)
    git = "git -c user.name=stranger -c user.email=stranger@host.example"
    walk.run("git init --quiet", OWN)
    for content in (operators, slower):
        (folder / "my_ops.py").write_text(content, encoding="utf-8")
        code, output = walk.run(f"git add my_ops.py && {git} commit --quiet -m operators", OWN)
        walk.expect("the stranger commits her operators", code == 0, output)


def type_with_checks(walk: Walk, command: str) -> None:
    """Types a command, with the checks that belong before and after it."""
    if command == "python -m pip install .":
        walk.run("python -m pip install --quiet pytest", OWN)
        own_session(walk, "before the package is installed")
    if command == "kernel-bridge compare HEAD~1":
        two_commits(walk)
    walk.type(command)
    if command == "python -m pip install .":
        light_install(walk)
    if command == 'python -m pip install ".[suites]"':
        own_session(walk, "after the package is installed")
        code, output = walk.run("kernel-bridge list --operator add", OTHER)
        walk.expect("a command works beside a package named like ours", code == 0, output)


def main() -> int:
    """Does the walk; returns 1 if a check of it failed."""
    repository = Path(sys.argv[1]).resolve()
    root = Path(tempfile.mkdtemp(prefix="stranger-"))
    walk = Walk(repository, root, night="--night" in sys.argv[2:])
    clone = walk.folders[CLONE]
    before_installing(walk)
    for page in PAGES:
        for name, content in files(clone / page).items():
            (walk.folders[OWN] / name).write_text(content, encoding="utf-8")
    typed: list[str] = []
    for page in PAGES:
        for command in commands(clone / page):
            if command not in typed:
                typed.append(command)

    def type_in(name: str) -> None:
        for command in typed:
            if terminal(command) == name:
                type_with_checks(walk, command)

    with ThreadPoolExecutor(len(walk.environments)) as terminals:
        list(terminals.map(type_in, walk.environments))
    walk.expect("the commands leave no .pytest_cache behind", not Path(walk.folders[OWN], ".pytest_cache").exists())
    status = subprocess.run(
        ["git", "status", "--porcelain"], cwd=clone, capture_output=True, text=True, check=True
    ).stdout
    walk.expect("the clone is as it was", not status, status)
    unknown = EXPECTED.keys() - set(typed)
    walk.expect(f"the documentation names {', '.join(sorted(unknown))}", not unknown)
    print("slowest: " + ", ".join(f"{command} {seconds:.0f} s" for seconds, command in sorted(walk.times)[:-6:-1]))
    print(f"{len(set(typed))} commands of the documentation typed, {len(walk.failed)} failures")
    for failure in walk.failed:
        print(f"  {failure}")
    shutil.rmtree(root, ignore_errors=True)
    return 1 if walk.failed else 0


if __name__ == "__main__":
    sys.exit(main())
