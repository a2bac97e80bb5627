"""Compiles the programs that time a cell on a CPU: a single call, a call into warm memory, and a loop of calls."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from suites.bench.chained_calls import UNCHANGED, can_chain, chain

WARM_FROM_BYTES = 1 << 16
"""Outputs that are smaller than this always lie in memory that the process used before."""


@dataclass(frozen=True)
class Programs:
    """The programs of a cell.

    Attributes:
        single: Takes the inputs and returns the outputs.
        warm: Takes old outputs, whose memory the new ones take, and the inputs; None for small outputs.
        chained: Takes a number of calls and the inputs, and makes the calls in one program; None where XLA would not
            keep every call.
        outs: The outputs: shapes and dtypes.
    """

    single: Callable[..., Any]
    warm: Callable[..., Any] | None
    chained: Callable[[int, Sequence[Any]], Any] | None
    outs: Sequence[Any]

    @classmethod
    def of(cls, call: Callable[..., Any], outs: Sequence[Any], inputs: Sequence[Any]) -> Programs:
        """Makes the programs of a call; JAX compiles each when it runs for the first time.

        Args:
            call: Takes the inputs and returns the outputs.
            outs: Anything with shape and dtype for each output.
            inputs: Likewise for each input.
        """
        written = sum(out.dtype.itemsize * out.size for out in outs)
        loop = functools.partial(_loop, chain(call, outs, inputs), jax.device_put(UNCHANGED))
        return cls(
            single=jax.jit(lambda *arrays: call(*arrays)),
            warm=_into(call) if written >= WARM_FROM_BYTES else None,
            chained=loop if can_chain(outs, inputs) else None,
            outs=outs,
        )

    def compile(self, arguments: Sequence[Any]) -> None:
        """Runs each program once."""
        jax.block_until_ready(self.single(*arguments))
        if self.warm is not None:
            jax.block_until_ready(self.warm(self.old(), *arguments))
        if self.chained is not None:
            jax.block_until_ready(self.chained(1, arguments))

    def old(self) -> list[jax.Array]:
        """Returns arrays whose memory ``warm`` may take over."""
        return [jnp.zeros(out.shape, out.dtype) for out in self.outs]


def _loop(program: Callable[..., Any], changes: Any, loops: int, arguments: Sequence[Any]) -> Any:
    return program(loops, changes=changes, arguments=list(arguments))


def _into(call: Callable[..., Any]) -> Callable[..., Any]:
    return jax.jit(lambda old, *arrays: jax.tree.leaves(call(*arrays)), donate_argnums=0, keep_unused=True)
