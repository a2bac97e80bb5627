"""Checks calls on arrays that are split over the devices of a mesh."""

import warnings

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from bridge import GatherWarning
from suites.cells.case import SEED, Case, stacked
from suites.cells.tables import TRANSFORMED_KERNELS
from suites.checks.judging.cell_verdict import judge_results
from suites.checks.judging.evidence import Evidence
from suites.checks.register import check
from suites.numerics.precision import precision

PER_DEVICE = 16
"""Elements of a split call on each device."""


@check(
    "shard",
    sees="state of one device used on another, a rule that splits what belongs together",
    cells=TRANSFORMED_KERNELS,
)
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
    _require_right_when_split(case, evidence, mesh)


def _require_right_when_split(case: Case, evidence: Evidence, mesh: Mesh) -> None:
    """Requires a right result of one call whose arrays are split along their first axes, by the kernel's own rule."""
    inputs = case.operator.sample(case.dtype, PER_DEVICE * mesh.size, SEED)
    whole, split = PartitionSpec(), PartitionSpec("batch")
    specs = [split if array.ndim and array.shape[0] % mesh.size == 0 else whole for array in inputs]
    with precision(case.dtype), warnings.catch_warnings():
        warnings.simplefilter("ignore", GatherWarning)
        placed = [jax.device_put(array, NamedSharding(mesh, spec)) for array, spec in zip(inputs, specs, strict=True)]
        results = jax.jit(case.build(inputs))(*placed)
    evidence.require(judge_results(case.operator, inputs, results), "one call, split over devices")
