"""Measures the seconds before the first result: imports, the first kernel of a process, and the next one.

Usage: ``python -m suites.dispatch.startup [ROUNDS]``. In each round, every row starts a process of its own, so that all
rows see the same load of the machine. The minimum says the most.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass

_ROUNDS = 5

_START = "import time; start = time.perf_counter(); "
_STOP = "; print(time.perf_counter() - start)"
_KERNELS = """
import time
import jax, jax.numpy as jnp, numba
from bridge import numba_kernel
x = jax.jit(lambda a: a + 1)(jnp.ones(512)).block_until_ready()
out = jax.ShapeDtypeStruct(x.shape, x.dtype)
@numba.njit
def double(x, out):
    for i in range(x.size):
        out[i] = 2 * x[i]
@numba.njit
def triple(x, out):
    for i in range(x.size):
        out[i] = 3 * x[i]
if NUMBA_FIRST:
    types = numba.types.Array(numba.float32, 1, "C", readonly=True), numba.types.Array(numba.float32, 1, "C")
    start = time.perf_counter()
    double.compile(types)
else:
    if SECOND:
        numba_kernel(double, out)(x).block_until_ready()
    kernel = triple if SECOND else double
    start = time.perf_counter()
    numba_kernel(kernel, out)(x).block_until_ready()
print(time.perf_counter() - start)
"""


@dataclass(frozen=True)
class Row:
    """One thing to measure.

    Attributes:
        name: What it is.
        program: Python code that prints the seconds.
        warm: Whether the bridge finds its native handlers on disk.
    """

    name: str
    program: str
    warm: bool = True


def _imports(modules: str) -> str:
    return f"{_START}{modules}{_STOP}"


def _kernel(*, numba_first: bool = False, second: bool = False) -> str:
    return f"NUMBA_FIRST, SECOND = {numba_first}, {second}\n{_KERNELS}"


ROWS = (
    Row("import jax", _imports("import jax")),
    Row("import bridge", _imports("import bridge")),
    Row("import jax, numba", _imports("import jax, numba")),
    Row("import numba; from bridge import numba_kernel", _imports("import numba; from bridge import numba_kernel")),
    Row("first kernel, Numba alone: compile only", _kernel(numba_first=True)),
    Row("first kernel, handlers on disk", _kernel()),
    Row("first kernel, nothing on disk", _kernel(), warm=False),
    Row("second kernel", _kernel(second=True)),
)


def measure(row: Row, folder: str) -> float:
    """The seconds of one row in a process of its own.

    Args:
        row: What to measure.
        folder: The cache folder of warm rows.

    Raises:
        subprocess.CalledProcessError: The process has failed.
    """
    with tempfile.TemporaryDirectory(prefix="kernel-bridge-") as empty:
        variables = {**os.environ, "KERNEL_BRIDGE_CACHE_DIR": folder if row.warm else empty}
        # Without byte code, Python compiles each file of a checkout anew, but none of an installed package.
        variables.pop("PYTHONDONTWRITEBYTECODE", None)
        command = [sys.executable, "-c", row.program]
        return float(subprocess.run(command, env=variables, check=True, capture_output=True, text=True).stdout)


def main(rounds: int = _ROUNDS) -> None:
    """Measures all rows in turns, and prints a table."""
    with tempfile.TemporaryDirectory(prefix="kernel-bridge-") as folder:
        for row in ROWS:
            measure(row, folder)  # fills the caches of Python, of the disk and of the bridge
        seconds: dict[str, list[float]] = {row.name: [] for row in ROWS}
        for _ in range(rounds):
            for row in ROWS:
                seconds[row.name].append(measure(row, folder))
    print(f"{'ms':>48}  minimum   median")
    for name, found in seconds.items():
        print(f"{name:>48} {1e3 * min(found):8.0f} {1e3 * statistics.median(found):8.0f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
