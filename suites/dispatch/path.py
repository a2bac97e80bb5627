"""Describes one way to call a kernel from JAX."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax

BinaryOp = Callable[[jax.Array, jax.Array], jax.Array]


class PathUnavailableError(Exception):
    """A path cannot be taken on this machine. The message is the reason that the page shows."""


@dataclass(frozen=True)
class CallPath:
    """An element-wise add of two float32 vectors, called in one particular way.

    Attributes:
        op: The function that a jitted function calls. It accepts tracers.
        eager: The function that a user calls outside ``jax.jit``.
        marker: Regular expression for the instruction of the call in the compiled HLO.
    """

    op: BinaryOp
    eager: BinaryOp
    marker: str


def custom_call(target: str) -> str:
    """Returns the marker of a custom call whose target matches the regular expression ``target``."""
    return rf'custom_call_target="{target}"'


def elementwise_add(size: int) -> str:
    """Returns the marker of XLA's own add of ``size`` float32 elements."""
    return rf"= f32\[{size}\]\S* add\("
