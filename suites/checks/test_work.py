"""Checks that the results of a function around kernels come from the kernels.

Such a function may compute the results with JAX's own operations, and call a kernel whose result it does not use, or
that copies what is there already. Two things must hold on random inputs. No operand that the function made for a kernel
is already one of the results. And results change if the results of the kernels change.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from reports import Status
from suites.cells.case import SEED, Case
from suites.cells.cell_table import Table
from suites.cells.tables.calls import kernels
from suites.checks.judging.bits import Array, same_bits
from suites.checks.judging.evidence import Evidence
from suites.checks.judging.traced_kernels import followed
from suites.checks.register import check
from suites.numerics.precision import precision


def functions_around_kernels(platform: str) -> list[Any]:
    """Returns the kernels that are JAX functions which call kernels; a bare kernel has nothing around it."""
    return [
        cell for cell in kernels(platform) if not cell.values[0].operator.kernel(cell.values[0].backend).direct
    ]  # fmt: skip


@check(
    "work",
    sees="functions around kernels that do the kernels' work, and leave them copies or nothing to do",
    cells=Table(cells=functions_around_kernels, quick_without_twins=True),
    order=37,
)
def test_results_come_from_the_kernels(case: Case, evidence: Evidence) -> None:
    operator = case.operator
    inputs = operator.sample(case.dtype, operator.sizes.check[-1], SEED)
    made: list[Any] = []

    def note(operands: list[Any], results: list[Any]) -> list[Any]:
        made.extend(operands)
        return results

    with precision(case.dtype), jax.default_device(case.device):
        call = operator.build(case.backend, inputs)

        def plain(*arrays: jax.Array) -> tuple[list[Any], list[Any]]:
            made.clear()
            return followed(call, arrays, note), list(made)

        def changed(*arrays: jax.Array) -> list[Any]:
            return followed(call, arrays, lambda operands, results: list(map(_changed, results)))

        arguments = [jax.device_put(array) for array in inputs]
        results, operands = ([np.asarray(leaf) for leaf in leaves] for leaves in jax.jit(plain)(*arguments))
        others = [np.asarray(leaf) for leaf in jax.jit(changed)(*arguments)]
    evidence.seen()
    if not operands:  # the calls lie in loops, which are not followed
        return
    for index, result in enumerate(results):
        if any(_is_same(operand, result) for operand in operands) and not any(
            _is_same(array, result) for array in inputs
        ):
            evidence.fail(
                Status.WRONG_VALUE,
                f"output {index} is there before the kernel is called, as one of its operands: JAX's own operations "
                "compute it, and the kernel copies it",
            )
    if same_bits(results, others) and any(result.size for result in results):
        evidence.fail(
            Status.WRONG_VALUE,
            "the results stay the same if every result of the kernel is changed: JAX's own operations compute them",
        )


def _changed(result: Any) -> Any:
    """Another value in every element; indices stay within their bounds."""
    kind = np.dtype(result.dtype).kind
    if kind == "b":
        return ~result
    if kind in "iu":
        return jnp.roll(result.reshape(-1), 1).reshape(result.shape) if result.size > 1 else result ^ 1
    return result + jnp.asarray(1, result.dtype)


def _is_same(array: Array, result: Array) -> bool:
    """Whether an array holds the bits of a result with more than a few different values."""
    if array.size != result.size or array.dtype != result.dtype or np.unique(result).size < 8:
        return False
    return array.tobytes() == result.tobytes()
