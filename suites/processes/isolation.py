"""Starts pytest for the commands of this package, without the configuration of the user's own tests.

A user's ``pytest.ini``, ``conftest.py``, ``PYTEST_ADDOPTS`` and installed plugins are meant for her tests. None of them
reaches these sessions: the configuration file is ``session.ini``, and only the plugins of ``_PLUGINS`` are loaded.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bridge.ffi.native.object_code import can_keep_files
from suites.cells.selection import Selection
from suites.processes.interruption import INTERRUPTION

HERE = Path(__file__).parents[1]
"""The folder of the package, which holds the tests."""

_PLUGINS = ("xdist.plugin", "pytest_timeout", "suites.plugin")


def arguments(tests: Sequence[Path]) -> list[str]:
    """Returns the first arguments of pytest, which runs these files."""
    command = ["-c", str(HERE / "processes" / "session.ini"), "--rootdir", str(HERE), "--confcutdir", str(HERE)]
    command += ["-p", "no:cacheprovider"]
    command += [part for plugin in _PLUGINS for part in ("-p", plugin)]
    return [*command, *map(str, tests)]


def shared_code(selection: Selection, folder: str) -> dict[str, str]:
    """Returns the variables with which processes on a CPU share the programs that XLA compiles for built-in operators.

    Without them each process compiles all programs, which takes longer than timing them. The kernels of users and of
    other libraries may hold addresses of one process, so each process compiles them itself.

    Args:
        selection: The cells of the processes.
        folder: A folder of the session.
    """
    if selection.sources or selection.peers or selection.device != "cpu":
        return {}
    least = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0", "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1"}
    return {"JAX_COMPILATION_CACHE_DIR": str(Path(folder, "xla"))} | least


@contextmanager
def isolated() -> Generator[tuple[dict[str, str], str]]:
    """Yields the environment of such a session, and a folder for temporary files that is deleted at the end.

    All processes of the user share the machine code of native handlers, which takes more than a second to compile. If
    the cache folder cannot be written to, only the processes of this session share it.
    """
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    variables["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    # A random.py in the user's current folder must not hide Python's own from worker processes.
    variables["PYTHONSAFEPATH"] = "1"
    variables.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # several processes share a GPU
    # If the project is not installed, a new process finds it by PYTHONPATH. It does not import from the current folder,
    # so that entry of sys.path does not count.
    root = str(HERE.parent)
    if root not in [path for path in sys.path[1:] if path != os.getcwd()]:
        variables["PYTHONPATH"] = os.pathsep.join(filter(None, (root, variables.get("PYTHONPATH"))))
    with (
        INTERRUPTION.raises(),
        tempfile.TemporaryDirectory(prefix="kernel-bridge-", ignore_cleanup_errors=True) as scratch,
    ):
        if not can_keep_files():
            variables["KERNEL_BRIDGE_CACHE_DIR"] = scratch
        yield variables, scratch
