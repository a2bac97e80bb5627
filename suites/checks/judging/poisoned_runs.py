"""Runs a compiled program on outputs that were filled with a pattern, to find elements that nothing writes.

The program takes its inputs and one donated array per output. XLA then uses the memory of that array for the
output (this is asserted), so an element that nothing writes still holds the pattern. Two runs with different patterns
must agree bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from reports import Status
from suites.checks.judging.canaries import set_canaries
from suites.checks.judging.leftovers import leftovers
from suites.numerics.verdict import Verdict

Array = np.ndarray[Any, Any]

POISONS = (0xFF, 0x5A)
"""Bytes that outputs are filled with: NaN (or -1), and a large ordinary number."""


def compile_poisoned(call: Callable[..., Any], outs: Sequence[Any], arguments: Sequence[Any]) -> Any:
    """Compiles ``call`` so that its outputs use the memory of its first argument, a list of arrays like ``outs``."""

    def run(poison: list[jax.Array], *arguments: jax.Array) -> list[jax.Array]:
        return jax.tree.leaves(call(*arguments))

    poison = [jax.ShapeDtypeStruct(out.shape, out.dtype) for out in outs]
    return jax.jit(run, donate_argnums=0, keep_unused=True).lower(poison, *arguments).compile()


def run_poisoned(program: Any, outs: Sequence[Any], arguments: Sequence[Any], byte: int) -> list[Array]:
    """Runs a program of :func:`compile_poisoned` and returns its results.

    Args:
        program: The program.
        outs: Its outputs, anything with shape and dtype.
        arguments: Its inputs, on the device.
        byte: Fills the outputs, and the memory of :func:`suites.checks.judging.leftovers.leftovers`, before the run.

    Raises:
        AssertionError: XLA did not use the donated memory, so the run proves nothing.
        WrittenBeyond: The program wrote beyond the end of an array, on a GPU.
    """
    poison = [_filled(out, byte) for out in outs]
    addresses = [array.unsafe_buffer_pointer() for array in poison]
    device = next(iter(poison[0].devices()))
    named = {f"output {index}": array for index, array in enumerate(poison)}
    named |= {f"input {index}": array for index, array in enumerate(arguments)}
    with leftovers(program, byte, device):
        canaries = set_canaries(named, device)
        results = jax.block_until_ready(program(poison, *arguments))
    canaries.require_unchanged()
    for result, address, out in zip(results, addresses, outs, strict=True):
        same_type = result.shape == tuple(out.shape) and result.dtype == out.dtype
        if result.size and same_type and result.unsafe_buffer_pointer() != address:
            raise AssertionError("XLA did not use the donated memory for an output, so poisoning it proves nothing")
    return [np.array(result) for result in results]


def disagreement(first: list[Array], second: list[Array], *, deterministic: bool) -> Verdict | None:
    """Compares the results of two runs with :data:`POISONS`; returns None if they agree as far as they must.

    An element that both runs left as they found it was never written. Any other difference comes from the
    kernel; only a deterministic kernel must have none.
    """
    differing = [index for index, (a, b) in enumerate(zip(first, second, strict=True)) if a.tobytes() != b.tobytes()]
    if not differing:
        return None
    index = differing[0]
    unwritten = np.ones(first[index].size, bool)
    for result, byte in ((first[index], POISONS[0]), (second[index], POISONS[1])):
        unwritten &= (result.reshape(-1, 1).view(np.uint8) == byte).all(axis=1)
    if unwritten.any():
        reason = f"output {index}: {int(unwritten.sum())} of {unwritten.size} elements were never written"
        return Verdict(Status.UNWRITTEN_OUTPUT, reason, None)
    if deterministic:
        return Verdict(Status.NONDETERMINISTIC, f"output {index} differs between two runs on the same inputs", None)
    return None


def _filled(out: Any, byte: int) -> jax.Array:
    dtype = np.dtype(out.dtype)
    # JAX cannot donate memory that it borrows from NumPy. It copies an array that does not begin at a multiple of 64
    # bytes. (jnp.array(copy=True) would compile a program for each shape.)
    pattern = np.full(8 + int(np.prod(out.shape)) * dtype.itemsize, byte, np.uint8)[8:]
    filled: jax.Array = jax.device_put(pattern.view(dtype).reshape(out.shape)).block_until_ready()
    return filled
