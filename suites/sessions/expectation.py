"""Fails a session in which no cell ran on the platform that the environment names.

If a GPU goes missing, all its cells are skipped, and a session of skips succeeds. A gate must not count that as a
success.
"""

from __future__ import annotations

import pytest

VARIABLE = "KERNEL_BRIDGE_EXPECT"
"""The environment variable that names the platform, as ``--device`` does."""

PLUGIN = "kernel-bridge-expectation"
"""The name that :class:`Expectation` is registered under."""


class Expectation:
    """Counts the cells that ran, as a pytest plugin of a session with :data:`VARIABLE` set.

    Args:
        platform: ``cpu`` or ``cuda``: the ids of the cells that count end in it.
    """

    def __init__(self, platform: str):
        self.platform = platform
        self.cells = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Counts the cells that ran: those that passed, and those that failed."""
        ran = report.when == "call" and not report.skipped
        self.cells += ran and report.nodeid.endswith(f"-{self.platform}]")

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fails a session without any such cell."""
        if not self.cells:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Prints how many cells ran."""
        line = f"{self.cells} cells ran on {self.platform}, as {VARIABLE} expects"
        if not self.cells:
            line = (
                f"no cell ran on {self.platform}, but {VARIABLE}={self.platform} expects some. Pass --device "
                f"{self.platform}, and look at the reasons of the skipped cells (-rs)."
            )
        terminalreporter.write_line(line, green=bool(self.cells), red=not self.cells)
