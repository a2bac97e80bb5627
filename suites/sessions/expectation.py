"""The platform that a session is there to test, from the environment: without a cell that ran on it, the session fails.

A GPU that has gone missing turns its cells into skips, and a session of skips into a success. A gate must not take it
for one.
"""

from __future__ import annotations

import pytest

VARIABLE = "KERNEL_BRIDGE_EXPECT"
"""The environment variable that names the platform, as ``--device`` does."""

PLUGIN = "kernel-bridge-expectation"
"""The name that :class:`Expectation` is registered under."""


class Expectation:
    """The pytest plugin of a session with :data:`VARIABLE` set.

    Args:
        platform: What the ids of the cells that count end in.
    """

    def __init__(self, platform: str):
        self.platform = platform
        self.cells = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Counts the cells that ran: those that passed, and those that failed."""
        ran = report.when == "call" and not report.skipped
        self.cells += ran and report.nodeid.endswith(f"-{self.platform}]")

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Makes a session without any such cell a failed one."""
        if not self.cells:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Says how many there were."""
        line = f"{self.cells} cells ran on {self.platform}, as {VARIABLE} expects"
        if not self.cells:
            line = (
                f"no cell ran on {self.platform}, but {VARIABLE}={self.platform} expects some. Pass --device "
                f"{self.platform}, and look at the reasons of the skipped cells (-rs)."
            )
        terminalreporter.write_line(line, green=bool(self.cells), red=not self.cells)
