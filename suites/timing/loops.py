"""Builds the programs that time a cell: one call, and a loop of calls of which XLA removes none."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

UNCHANGED = np.False_
"""Tells a program of :func:`chain`, when it runs, that no input changes."""


def chain(call: Callable[..., Any], outs: Sequence[Any], inputs: Sequence[Any]) -> Callable[..., Any] | None:
    """Returns a program that runs ``call`` a number of times, always on the same inputs.

    None if there is no element to write: then XLA would make one call before the loop.

    The program takes ``loops``, the number of calls, ``changes``, which is :data:`UNCHANGED`, and the list of
    ``arguments``. If ``changes`` were true, the first element of the first output would replace the first element of an
    input after each call. XLA cannot rule that out, so it must keep every call, in order. In fact no input ever
    changes, so a kernel whose inputs are indices stays within its arrays. Writing the old element back costs next to
    nothing. The loop carries all outputs, so that each call computes all of them, and the barrier keeps XLA from
    computing only the one element.

    Args:
        call: Takes the inputs and returns the outputs.
        outs: Anything with shape and dtype for each output.
        inputs: Anything with shape and dtype for each input.
    """
    index = written_input(outs, inputs)
    if index is None:
        return None

    def body(_: Any, carried: Any) -> Any:
        (arguments, changes, element), _ = carried
        results = jax.tree.leaves(call(*arguments))
        arguments, results = jax.lax.optimization_barrier((list(arguments), results))
        new = results[0].reshape(-1)[0]
        new = (new.real if element.dtype.kind != "c" else new).astype(element.dtype)
        old = arguments[index]
        arguments[index] = old.at[(0,) * old.ndim].set(jnp.where(changes, new, element))
        return (arguments, changes, element), results

    @jax.jit
    def program(loops: Any, changes: Any, arguments: list[jax.Array]) -> Any:
        zeros = [jnp.zeros(out.shape, out.dtype) for out in outs]
        # Read before the loop: reading it in each iteration would cost as much as a short kernel.
        element = arguments[index].reshape(-1)[0]
        return jax.lax.fori_loop(0, loops, body, ((list(arguments), changes, element), zeros))[1]

    return program


def written_input(outs: Sequence[Any], inputs: Sequence[Any]) -> int | None:
    """Returns the index of the input to write to: the largest of the first output's dtype, else the largest of all."""
    if not outs or not math.prod(outs[0].shape):
        return None
    sizes = {index: math.prod(array.shape) for index, array in enumerate(inputs) if math.prod(array.shape)}
    alike = [index for index in sizes if inputs[index].dtype == outs[0].dtype]
    return max(alike or sizes, key=lambda index: sizes[index], default=None)


@dataclass(frozen=True)
class Programs:
    """The programs of a cell.

    Attributes:
        single: Takes the inputs and returns the outputs.
        chained: Takes a number of calls and the inputs, and makes the calls in one program; None where XLA would not
            keep every call.
    """

    single: Callable[..., Any]
    chained: Callable[[int, Sequence[Any]], Any] | None

    @classmethod
    def of(cls, call: Callable[..., Any], outs: Sequence[Any], inputs: Sequence[Any]) -> Programs:
        """Makes the programs of a call; JAX compiles each when it runs for the first time.

        Args:
            call: Takes the inputs and returns the outputs.
            outs: Anything with shape and dtype for each output.
            inputs: Anything with shape and dtype for each input.
        """
        program, changes = chain(call, outs, inputs), jax.device_put(UNCHANGED)
        chained = program and (lambda loops, arguments: program(loops, changes, list(arguments)))
        return cls(single=jax.jit(lambda *arrays: call(*arrays)), chained=chained)

    def compile(self, arguments: Sequence[Any]) -> None:
        """Runs each program once."""
        jax.block_until_ready(self.single(*arguments))
        if self.chained is not None:
            jax.block_until_ready(self.chained(1, arguments))
