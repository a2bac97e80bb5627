"""Checks an operator that declares dimensions for splitting, on arrays that are split over the devices of a mesh."""

import warnings
from collections.abc import Sequence

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from reports import Status
from suites.backends.custom_kernel import CustomKernel
from suites.cells.case import Case
from suites.cells.tables.declared_cells import SPLIT
from suites.checks.judging.cell_verdict import judge_results
from suites.checks.judging.evidence import Evidence
from suites.checks.register import check
from suites.numerics.arrays import Inputs
from suites.numerics.precision import precision


@check(
    "partition",
    sees="dimensions that def_partitioning calls independent, but are not: results of parts that do not fit together",
    cells=SPLIT,
    order=155,
)
def test_split_dimensions_give_the_same_results(case: Case, evidence: Evidence) -> None:
    operator, inputs = case.operator, case.inputs()
    kernel = operator.kernel(case.backend)
    assert isinstance(kernel, CustomKernel)
    dimensions = kernel.dimensions
    assert dimensions is not None
    ranks = [array.ndim for array in inputs]
    if [len(names) for names in dimensions.operands] != ranks:
        evidence.fail(
            Status.WRONG_SHAPE,
            f"def_partitioning declares {[len(names) for names in dimensions.operands]} dimensions of the inputs, but "
            f"they have {ranks}",
        )
    for name in sorted(dimensions.split):
        parts = _parts(inputs, dimensions.operands, name, len(jax.devices(case.platform)))
        axis = AxisType.Auto if case.variant == "auto" else AxisType.Explicit
        mesh = Mesh(jax.devices(case.platform)[:parts], ("devices",), axis_types=(axis,))
        with precision(case.dtype), jax.set_mesh(mesh), warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=UserWarning)  # other dimensions are gathered: no fault
            placed = [
                jax.device_put(array, NamedSharding(mesh, _spec(names, name)))
                for array, names in zip(inputs, dimensions.operands, strict=True)
            ]
            program = jax.jit(operator.build(case.backend, inputs)).lower(*placed).compile()
            results = program(*placed)
        evidence.require_calls(program, case)
        evidence.require(judge_results(operator, inputs, results), f"{parts} parts of dimension {name}")


def _parts(inputs: Inputs, operands: Sequence[Sequence[str]], name: str, devices: int) -> int:
    """The number of parts of a dimension: the most devices that divide each of its extents."""
    extents = [
        array.shape[place]
        for array, names in zip(inputs, operands, strict=True)
        for place, other in enumerate(names)
        if other == name
    ]
    common = int(np.gcd.reduce(extents)) if extents else devices
    return max(parts for parts in range(1, devices + 1) if common % parts == 0)


def _spec(names: Sequence[str], name: str) -> PartitionSpec:
    return PartitionSpec(*("devices" if other == name else None for other in names))
