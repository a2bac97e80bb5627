"""Checks calls on arrays that are split over the devices of a mesh."""

import math
import warnings
from collections.abc import Iterator

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from bridge import GatherWarning
from suites.cells.case import SEED, Case, stacked
from suites.cells.tables import TRANSFORMED_KERNELS
from suites.checks.judging.cell_verdict import judge_results
from suites.checks.judging.evidence import Evidence
from suites.checks.register import check
from suites.numerics.arrays import Inputs
from suites.numerics.precision import precision

SPLIT_SIZES = (64, 128, 256)
"""Nominal sizes of split calls: each axis of up to four has an even extent at one of them."""

AXES = ("rows", "columns")
"""The axes of the mesh of a split call, with two devices along each."""

Axes = frozenset[tuple[int, int]]
"""Axes of inputs, each as the index of the input and its own."""


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
    for inputs, specs in _splits(case):
        _require_right_when_split(case, evidence, inputs, specs)


def _splits(case: Case) -> Iterator[tuple[Inputs, list[PartitionSpec]]]:
    """Yields inputs and how they are split in two: along each axis of each input alone, and along all together."""
    tried: set[Axes] = set()
    for size in SPLIT_SIZES:
        inputs = case.operator.sample(case.dtype, size, SEED)
        shapes = enumerate(array.shape for array in inputs)
        even = [(index, axis) for index, shape in shapes for axis, extent in enumerate(shape) if extent % 2 == 0]
        for chosen in (*(frozenset([pair]) for pair in even), frozenset(even)):
            if chosen not in tried:
                tried.add(chosen)
                yield inputs, [_spec(index, array.ndim, chosen) for index, array in enumerate(inputs)]


def _spec(index: int, rank: int, chosen: Axes) -> PartitionSpec:
    """Splits the first two of the chosen axes of an input."""
    names = iter(AXES)
    return PartitionSpec(*(next(names, None) if (index, axis) in chosen else None for axis in range(rank)))


def _require_right_when_split(case: Case, evidence: Evidence, inputs: Inputs, specs: list[PartitionSpec]) -> None:
    """Requires a right result of one call on split arrays, by the kernel's own rule."""
    devices = jax.devices(case.platform)
    counts = min(len(devices), 2), 2 if len(devices) > 3 else 1
    mesh = Mesh(np.reshape(devices[: math.prod(counts)], counts), AXES)
    with precision(case.dtype), warnings.catch_warnings():
        warnings.simplefilter("ignore", GatherWarning)
        placed = [jax.device_put(array, NamedSharding(mesh, spec)) for array, spec in zip(inputs, specs, strict=True)]
        results = jax.jit(case.build(inputs))(*placed)
    split = ", ".join(f"{array.shape} by {tuple(spec)}" for array, spec in zip(inputs, specs, strict=True))
    evidence.require(judge_results(case.operator, inputs, results), f"one call, split over devices ({split})")
