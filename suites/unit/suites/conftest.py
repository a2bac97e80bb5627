"""Where the tests of commands type them."""

import pytest

from suites.cells import catalogue


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder to type commands in; afterwards the operators are the built-in ones again."""
    monkeypatch.chdir(tmp_path)
    # The command line sets it for --runs; monkeypatch takes it away again.
    monkeypatch.setenv("KERNEL_BRIDGE_RUNS", "runs")
    yield tmp_path
    catalogue.use([])
