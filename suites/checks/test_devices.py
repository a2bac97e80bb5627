"""Checks calls on arrays that are split over the devices of a mesh."""

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from suites.cells.case import Case, stacked
from suites.cells.tables import TRANSFORMED_KERNELS
from suites.checks.judging.evidence import Evidence
from suites.checks.register import check
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
