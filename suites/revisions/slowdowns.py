"""Tries the verdicts of ``compare`` on slowdowns of known size: ``python -m suites.revisions.slowdowns``.

Each try makes two versions of eight small kernels. In the second version, kernels are slower by the factors of the
table; the factor 1 leaves the code as it is. It prints how often the kernels of each factor got which verdict.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

KERNELS = 8
"""Kernels of a table."""

STEPS = {"cpu": 400, "cuda": 4_000}
SIZE = {"cpu": 256, "cuda": 65_536}
"""Steps of a kernel for each element, and elements: a call takes some tenths of a millisecond, or 20 µs on a GPU."""

_STEPS = """
        value = x[i]
        for _ in range({steps}):
            value = value * np.float32(0.5) + np.float32(0.25)
        out[i] = x[i] * x[i] * x[i] + np.float32(0) * value
"""

_KERNEL = {
    "cpu": """
@numba.njit
def cube{number}(x, out):
    for i in range(x.size):""",
    "cuda": """
@cuda.jit
def cube{number}(x, out):
    i = cuda.grid(1)
    if i < x.size:""",
}

_OPERATOR = """
CUBE{number} = Operator(
    name="cube{number}", reference=lambda x: x * x * x, kernels={{"{backend}": cube{number}}}, dtypes=("float32",)
)
"""


def operators(factors: list[float], device: str) -> str:
    """Returns a file of operators, whose kernels have in turn as many steps as each factor says."""
    backend, imported = {"cpu": ("numba", "import numba"), "cuda": ("numba_cuda", "from numba import cuda")}[device]
    kernels = (
        (_KERNEL[device] + _STEPS + _OPERATOR).format(
            number=number, backend=backend, steps=round(STEPS[device] * factors[number % len(factors)])
        )
        for number in range(KERNELS)
    )
    return "\n".join([imported, "import numpy as np", "from suites import Operator", *kernels])


def command(folder: Path, device: str, name: str, *arguments: str) -> tuple[int, str]:
    """Runs a command of the project in a folder; returns its exit code and what it printed.

    Raises:
        RuntimeError: It printed nothing.
    """
    line = [sys.executable, "-P", "-m", "suites", name, *arguments, "--device", device, "--size", str(SIZE[device])]
    line += ["--format", "json", "--runs", str(folder / "runs")]
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False)
    if not done.stdout:
        raise RuntimeError(f"{name} printed nothing: {done.stderr}")
    return done.returncode, done.stdout


def revisions(folder: Path, versions: list[str], device: str, minutes: str) -> tuple[int, str]:
    """Compares the two versions as two commits, in turns."""
    git = ["git", "-C", str(folder), "-c", "user.name=tries", "-c", "user.email=tries@host.example"]
    subprocess.run([*git, "init", "--quiet"], check=True)
    for content in versions:
        (folder / "my_ops.py").write_text(content, encoding="utf-8")
        subprocess.run([*git, "add", "."], check=True)
        subprocess.run([*git, "commit", "--quiet", "--allow-empty", "-m", "kernels"], check=True)
    return command(folder, device, "compare", "HEAD~1", "my_ops.py", "--minutes", minutes)


def recorded(folder: Path, versions: list[str], device: str, minutes: str) -> tuple[int, str]:
    """Compares recorded runs of the two versions, one after the other."""
    for content in versions:
        (folder / "my_ops.py").write_text(content, encoding="utf-8")
        command(folder, device, "bench", "my_ops.py")
    return command(folder, device, "compare", "previous", "latest")


def tried(how: Callable[..., tuple[int, str]], factors: list[float], device: str, minutes: str) -> None:
    """Tries a table once, and prints the verdicts of each factor."""
    verdicts, begun = {factor: Counter[str]() for factor in factors}, time.monotonic()
    with tempfile.TemporaryDirectory(prefix="slowdowns-") as name:
        code, table = how(Path(name), [operators(same, device) for same in ([1.0], factors)], device, minutes)
    for row in json.loads(table):
        number = int(row["operator"].removeprefix("cube"))
        verdicts[factors[number % len(factors)]][row["verdict"]] += 1
    found = "; ".join(
        f"{factor:g}x {', '.join(f'{verdict} {count}' for verdict, count in sorted(counts.items()))}"
        for factor, counts in verdicts.items()
    )
    print(f"{found}; exit code {code}; {time.monotonic() - begun:.0f} s", flush=True)


def main() -> None:
    """Tries a table as often as the options say."""
    parser = argparse.ArgumentParser("python -m suites.revisions.slowdowns", description=__doc__)
    parser.add_argument("--tries", type=int, default=10, help="tries of the table (default: 10)")
    parser.add_argument("--factors", type=float, nargs="+", default=[1.0, 1.15, 1.5, 10.0], help="of the kernels")
    parser.add_argument("--minutes", default="2", help="the longest time of two revisions (default: 2)")
    parser.add_argument("--recorded", action="store_true", help="compare two runs of bench, not two revisions")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where the kernels run (default: cpu)")
    options = parser.parse_args()
    for _ in range(options.tries):
        tried(recorded if options.recorded else revisions, options.factors, options.device, options.minutes)


if __name__ == "__main__":
    main()
