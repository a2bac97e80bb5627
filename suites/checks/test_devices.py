"""Checks calls on arrays that are split over the devices of a mesh."""

import warnings
from collections.abc import Sequence

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from reports import Status
from suites.backends.custom_kernel import CustomKernel
from suites.cells.case import Case, stacked
from suites.cells.tables.calls import TRANSFORMED_KERNELS
from suites.cells.tables.declared_cells import SPLIT
from suites.checks.judging.cell_verdict import judge_results
from suites.checks.judging.evidence import Evidence
from suites.checks.register import check
from suites.numerics.arrays import Inputs
from suites.numerics.precision import precision


@check("shard", sees="state of one device used on another", cells=TRANSFORMED_KERNELS)
def test_each_shard_is_right(case: Case, evidence: Evidence) -> None:
    devices = jax.devices(case.platform)
    elements = case.samples(len(devices))
    mesh, split = Mesh(devices, ("batch",)), PartitionSpec("batch")
    with precision(case.dtype):
        call, columns = case.build(elements[0]), stacked(elements)
        mapped = jax.shard_map(jax.vmap(call), mesh=mesh, in_specs=split, out_specs=split, check_vma=True)
        program = jax.jit(mapped).lower(*columns).compile()
        results = program(*[jax.device_put(array, NamedSharding(mesh, split)) for array in columns])
    evidence.require_calls(program, case)
    evidence.require_elements(case.operator, elements, results, "device")


@check(
    "partition",
    sees="dimensions that def_partitioning calls independent, but are not: results of parts that do not fit together",
    cells=SPLIT,
)
def test_split_dimensions_give_the_same_results(case: Case, evidence: Evidence) -> None:
    operator, inputs = case.operator, case.inputs()
    kernel = operator.kernel(case.backend)
    assert isinstance(kernel, CustomKernel)
    dimensions = kernel.dimensions
    assert dimensions is not None
    ranks, declared = [array.ndim for array in inputs], [len(names) for names in dimensions.operands]
    if declared != ranks:
        evidence.fail(
            Status.WRONG_SHAPE,
            f"def_partitioning declares {declared} dimensions of the inputs, but they have {ranks}",
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
            program = jax.jit(case.build(inputs)).lower(*placed).compile()
            results = program(*placed)
        evidence.require_calls(program, case)
        evidence.require(judge_results(operator, inputs, results), f"{parts} parts of dimension {name}")


def _parts(inputs: Inputs, operands: Sequence[Sequence[str]], name: str, devices: int) -> int:
    """The number of parts of a dimension: the most devices that divide each of its extents."""
    pairs = zip(inputs, operands, strict=True)
    extents = [extent for array, names in pairs for extent, own in zip(array.shape, names, strict=True) if own == name]
    common = int(np.gcd.reduce(extents)) if extents else devices
    return max(parts for parts in range(1, devices + 1) if common % parts == 0)


def _spec(names: Sequence[str], name: str) -> PartitionSpec:
    return PartitionSpec(*("devices" if other == name else None for other in names))
