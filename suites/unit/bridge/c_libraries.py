"""Compiles C functions for the tests that call them."""

import shutil
import subprocess
from pathlib import Path

import pytest


def compiled(source: str, path: Path, *flags: str) -> Path:
    """Makes a library of a C source; skips the test that asks for it where there is no compiler."""
    compiler = shutil.which("cc") or pytest.skip("this machine has no C compiler")
    subprocess.run(
        [compiler, "-shared", "-fPIC", *flags, "-x", "c", "-", "-o", path], input=source.encode(), check=True
    )
    return path
