"""Under ``jax.shard_map``, every device of the platform runs its own part of a batch, and each element is right."""

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from suites.cells.params import SEED
from suites.judging.cell_verdict import check_results, missing_custom_call, precision


def test_each_shard_is_right(kernel_case, evidence):
    operator = kernel_case.operator
    devices = jax.devices(kernel_case.platform)
    elements = [operator.sample(kernel_case.dtype, kernel_case.size, SEED + seed) for seed in range(len(devices))]
    mesh, split = Mesh(devices, ("batch",)), PartitionSpec("batch")
    with precision(kernel_case.dtype):
        call = operator.build(kernel_case.backend, elements[0])
        mapped = jax.shard_map(jax.vmap(call), mesh=mesh, in_specs=split, out_specs=split, check_vma=True)
        stacked = [np.stack(column) for column in zip(*elements, strict=True)]
        program = jax.jit(mapped).lower(*stacked).compile()
        sharding = NamedSharding(mesh, split)
        results = [np.asarray(leaf) for leaf in program(*[jax.device_put(array, sharding) for array in stacked])]
    calls = operator.calls(kernel_case.backend)
    evidence.require_witness(missing_custom_call(program.as_text(), kernel_case.backend, kernel_case.platform, calls))
    for index, inputs in enumerate(elements):
        evidence.require(check_results(operator, inputs, [leaf[index] for leaf in results]), f"device {index}")
