"""Tries the verdicts of ``compare HEAD~1`` on slowdowns of known size: ``python -m suites.revisions.slowdowns``.

Each try commits six small kernels twice to a new repository. The second commit makes half of them slower by a factor;
the factor 1 changes a comment only, an A/A run. It prints how often slowed and equal kernels got which verdict.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

KERNELS = 6
"""Kernels of a table."""

STEPS = {"cpu": 400, "cuda": 4_000}
SIZE = {"cpu": 256, "cuda": 65_536}
"""Steps of a kernel for each element, and elements: a call takes some tenths of a millisecond, or 20 µs on a GPU."""

VERDICTS = ("SLOWER", "UNSURE", "SAME", "FASTER")

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


def operators(factor: float, device: str = "cpu") -> str:
    """Returns a file of operators, of which every second one has a factor more steps."""
    backend, imported = {"cpu": ("numba", "import numba"), "cuda": ("numba_cuda", "from numba import cuda")}[device]
    kernels = (
        (_KERNEL[device] + _STEPS + _OPERATOR).format(
            number=number, backend=backend, steps=round(STEPS[device] * (factor if number % 2 else 1.0))
        )
        for number in range(KERNELS)
    )
    return "\n".join([imported, "import numpy as np", "from suites import Operator", *kernels, f"# {factor}", ""])


def make_repository(folder: Path, factor: float, device: str) -> None:
    """Makes a repository of two commits: the kernels, and then the slowed ones."""
    git = ["git", "-C", str(folder), "-c", "user.name=tries", "-c", "user.email=tries@host.example"]
    subprocess.run([*git, "init", "--quiet"], check=True)
    for content in (operators(1.0, device), operators(factor, device) + "# the second commit\n"):
        (folder / "my_ops.py").write_text(content, encoding="utf-8")
        subprocess.run([*git, "add", "."], check=True)
        subprocess.run([*git, "commit", "--quiet", "-m", "kernels"], check=True)


def compared(folder: Path, device: str, arguments: list[str]) -> tuple[int, list[dict[str, str]]]:
    """Runs the comparison of a repository; returns its exit code, and the rows of its table."""
    command = [sys.executable, "-P", "-m", "suites", "compare", "HEAD~1", "my_ops.py", "--device", device]
    command += ["--size", str(SIZE[device]), "--format", "json", "--runs", str(folder / "runs"), *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if not done.stdout:
        raise RuntimeError(f"no comparison was made:\n{done.stdout}{done.stderr}")
    return done.returncode, json.loads(done.stdout)


def tried(factor: float, tries: int, device: str, arguments: list[str]) -> Iterator[str]:
    """Tries a factor; yields a line for the slowed and one for the equal kernels."""
    slowed, equal, codes = Counter[str](), Counter[str](), Counter[int]()
    false_tables, begun = 0, time.monotonic()
    for _ in range(tries):
        with tempfile.TemporaryDirectory(prefix="slowdowns-") as name:
            make_repository(Path(name), factor, device)
            code, rows = compared(Path(name), device, arguments)
        codes[code] += 1
        is_false = False
        for row in rows:
            changed = factor != 1.0 and int(row["operator"].removeprefix("cube")) % 2
            (slowed if changed else equal)[row["verdict"]] += 1
            is_false |= not changed and row["verdict"] in ("SLOWER", "FASTER")
        false_tables += is_false
    each = (time.monotonic() - begun) / tries
    for what, found in ((f"{factor:g}x slower", slowed), ("equal code", equal)):
        if cells := found.total():
            shares = ", ".join(f"{name} {found[name] / cells:.0%}" for name in VERDICTS if found[name])
            yield f"{what:12} {cells:4} cells: {shares}"
    exits = ", ".join(f"{code}: {count}" for code, count in sorted(codes.items()))
    yield f"             exit codes {exits}; tables with a false alarm {false_tables} of {tries}; {each:.0f} s a try"


def main() -> None:
    """Tries every factor that the options name."""
    parser = argparse.ArgumentParser("python -m suites.revisions.slowdowns", description=__doc__)
    parser.add_argument("--tries", type=int, default=10, help="tries of each factor (default: 10)")
    parser.add_argument("--factors", type=float, nargs="+", default=[1.0, 1.15, 1.5, 10.0])
    parser.add_argument("--minutes", default="2", help="the longest time of a comparison (default: 2)")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where the kernels run (default: cpu)")
    options = parser.parse_args()
    for factor in options.factors:
        print(f"\nfactor {factor:g}, {options.tries} tries", flush=True)
        for line in tried(factor, options.tries, options.device, ["--minutes", options.minutes]):
            print(line, flush=True)


if __name__ == "__main__":
    main()
