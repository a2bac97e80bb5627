"""Makes a pytest session that a user starts for all checks work as ``kernel-bridge validate`` does.

The session is the one of ``pytest -p suites.plugin --pyargs suites.checks --kb-operators FILE``. It has the same cells,
CPU devices, drawn inputs, workers and limits, and it is judged in the same way. What the user asks for wins: with
``-n 0``, there are no workers.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from suites.sessions.preparation import CPU_DEVICES, make_cpu_devices

PACKAGE = "suites.checks"
"""The argument of pytest, with ``--pyargs``, that means every check."""

_CHECKS = Path(__file__).parents[1] / "checks"

DEVICES_VARIABLE = "JAX_NUM_CPU_DEVICES"


def prepare_early() -> None:
    """Gives JAX its CPU devices before a ``conftest.py`` can start it. JAX is not imported for that."""
    if "jax" in sys.modules:
        make_cpu_devices()
    else:
        os.environ.setdefault(DEVICES_VARIABLE, str(CPU_DEVICES))


def work_like_validate(config: pytest.Config) -> None:
    """Changes the options of a session that runs every check, and of no other session.

    Called before pytest-xdist reads its options.
    """
    option: Any = config.option
    if not option.pyargs or PACKAGE not in config.args:
        return
    is_alone = all(argument == PACKAGE for argument in config.args)
    # Files that are named are collected whatever python_files says.
    every = sorted(f"{PACKAGE}.{path.stem}" for path in _CHECKS.glob("test_*.py"))
    place = config.args.index(PACKAGE)
    others = [argument for argument in config.args if argument != PACKAGE]
    config.args[:] = [*others[:place], *every, *others[place:]]
    option.kb_only_checks = is_alone
    if hasattr(config, "workerinput"):
        return  # a worker has the options of the session, but the arguments that were typed
    if hasattr(option, "benchmark_disable"):
        option.benchmark_disable = True  # it would warn of the workers
    if config.pluginmanager.hasplugin("timeout") and option.timeout is None:
        option.timeout, option.timeout_method = 300.0, option.timeout_method or "thread"
    can_spread = config.pluginmanager.hasplugin("xdist") and not (option.usepdb or option.collectonly)
    if is_alone and can_spread and option.numprocesses is None and option.dist == "no" and not option.tx:
        from suites.sessions.validate_command import default_jobs

        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        option.numprocesses, option.dist = default_jobs(), "worksteal"
        option.maxworkerrestart = option.maxworkerrestart or "1000"


def leave_warnings(config: pytest.Config) -> None:
    """Keeps ``-W error`` and the user's filters from making failures of warnings, which ``validate`` does not do.

    Only where the session has no tests but the checks.
    """
    if getattr(config.option, "kb_only_checks", False):
        config.known_args_namespace.pythonwarnings = []
        config.addinivalue_line("filterwarnings", "default")
