"""Times calls by pytest-benchmark, in one process: ``pytest --pyargs suites.bench.speed --kb-operator add``.

The options of pytest-benchmark (``--benchmark-json``, ``--benchmark-compare``, ...) are those of any other project.
"""

from typing import Any

import jax

from reports import Status
from suites.cells.case import Case
from suites.cells.grid import as_parameter
from suites.cells.selection import Selection
from suites.numerics.precision import precision
from suites.timing.timed_cell import TimedCell
from suites.timing.timed_selection import timed_cells


def pytest_generate_tests(metafunc: Any) -> None:
    """A test for each cell that the options of the plugin choose."""
    cells = timed_cells(Selection.of(metafunc.config.option, "kb_"))
    metafunc.parametrize("case", [as_parameter(case) for case in cells])


def test_speed(case: Case, benchmark: Any) -> None:
    """Checks the results of a call, then times it."""
    with precision(case.dtype), jax.default_device(case.device):
        cell = TimedCell(case)
        cell.prepare(checks=True)
        assert cell.result.status is Status.PASSED, f"{cell.result.status}: {cell.result.reason}"
        assert cell.programs is not None  # of a cell that passed
        call = cell.programs.single
        arguments = [jax.device_put(array, case.device) for array in case.inputs()]
        benchmark.extra_info["cell"] = case.cell.id
        benchmark(lambda: jax.block_until_ready(call(*arguments)))
