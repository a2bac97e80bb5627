"""Checks that under ``jax.shard_map`` every device of the platform runs its own part of a batch right."""

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from suites.cells.case import SEED, Case
from suites.cells.tables.calls import TRANSFORMED_KERNELS
from suites.checks.judging.cell_verdict import judge_results
from suites.checks.judging.evidence import Evidence
from suites.checks.register import check
from suites.numerics.precision import precision


@check("shard", sees="state of one device used on another", cells=TRANSFORMED_KERNELS, order=150)
def test_each_shard_is_right(case: Case, evidence: Evidence) -> None:
    operator = case.operator
    devices = jax.devices(case.platform)
    elements = [operator.sample(case.dtype, case.size, SEED + seed) for seed in range(len(devices))]
    mesh, split = Mesh(devices, ("batch",)), PartitionSpec("batch")
    with precision(case.dtype):
        call = operator.build(case.backend, elements[0])
        mapped = jax.shard_map(jax.vmap(call), mesh=mesh, in_specs=split, out_specs=split, check_vma=True)
        stacked = [np.stack(column) for column in zip(*elements, strict=True)]
        program = jax.jit(mapped).lower(*stacked).compile()
        sharding = NamedSharding(mesh, split)
        results = [np.asarray(leaf) for leaf in program(*[jax.device_put(array, sharding) for array in stacked])]
    evidence.require_calls(program, case)
    for index, inputs in enumerate(elements):
        evidence.require(judge_results(operator, inputs, [leaf[index] for leaf in results]), f"device {index}")
