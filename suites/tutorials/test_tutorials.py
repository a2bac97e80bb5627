"""Tutorials run in processes of their own, as a reader would run them: their asserts are the tests."""

import os
import re
import subprocess
import sys
from pathlib import Path

import jax
import pytest

SCRIPTS = sorted(path for path in Path(__file__).parent.glob("[!_]*.py") if not path.name.startswith("test_"))


def run(path, **environment):
    """What a tutorial prints, with every warning an error."""
    result = subprocess.run(
        [sys.executable, "-W", "error", str(path)],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "XLA_PYTHON_CLIENT_PREALLOCATE": "false",  # this process may hold most of a GPU's memory
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.mark.parametrize("name", [path.stem for path in SCRIPTS if path.stem != "many_devices"])
def test_it_runs_without_warnings_and_says_something(name):
    """``suites/unit/bridge/test_two_processes.py`` runs the network of many devices."""
    assert run(Path(__file__).with_name(f"{name}.py")).strip()


@pytest.mark.skipif(jax.default_backend() != "gpu", reason="without a GPU this is what the test above runs")
@pytest.mark.parametrize(
    ("name", "said"),
    [("numba_gpu", r"^[1-9]\d* calls ran in Numba's simulator"), ("warp_kernels", r"^bridge .*, on cpu$")],
)
def test_without_a_gpu_it_runs_on_the_cpu(name, said):
    path = next(path for path in SCRIPTS if path.stem == name)
    assert re.search(said, run(path, JAX_PLATFORMS="cpu"), flags=re.MULTILINE)


def test_no_name_hides_a_package():
    """Python looks for modules in the folder of the script first: numba_cuda.py would stand in for the package."""
    source = "import importlib.util, sys; print([*filter(importlib.util.find_spec, sys.argv[1:])])"
    command = [sys.executable, "-I", "-c", source, *(path.stem for path in SCRIPTS)]
    process = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert process.stdout.strip() == "[]"
