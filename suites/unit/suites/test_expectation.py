"""A session that is there to test a platform fails if no cell ran on it."""

from types import SimpleNamespace

import pytest

from suites.sessions.expectation import Expectation


def outcome(*reports):
    """The exit status of a session that was fine but for the expectation, and what the expectation says."""
    expectation = Expectation("cuda")
    for nodeid, when, skipped in reports:
        expectation.pytest_runtest_logreport(SimpleNamespace(nodeid=nodeid, when=when, skipped=skipped))
    session, lines = SimpleNamespace(exitstatus=pytest.ExitCode.OK), []
    expectation.pytest_sessionfinish(session)
    expectation.pytest_terminal_summary(SimpleNamespace(write_line=lambda line, **colours: lines.append(line)))
    return session.exitstatus, "".join(lines)


@pytest.mark.parametrize(
    "reports",
    [
        [],
        [("test_forward.py::test_it[add-numba_cuda-f32-33-cuda]", "setup", True)],
        [("test_forward.py::test_it[add-numba_cuda-f32-33-cuda]", "setup", False)],
        [("test_forward.py::test_it[add-numba-f32-33-cpu]", "call", False)],
        [("test_launch.py::test_a_shape", "call", False)],
    ],
    ids=["nothing", "skipped", "not yet called", "other platform", "no cell"],
)
def test_without_a_cell_on_the_platform_the_session_fails_and_says_why(reports):
    status, text = outcome(*reports)
    assert status == pytest.ExitCode.TESTS_FAILED
    assert "no cell ran on cuda" in text
    assert "--device cuda" in text


def test_with_one_it_stays_as_it_was():
    status, text = outcome(("test_forward.py::test_it[add-numba_cuda-f32-33-cuda]", "call", False))
    assert status == pytest.ExitCode.OK
    assert text.startswith("1 cells ran on cuda")
