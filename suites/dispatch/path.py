"""One way of calling a kernel from JAX, or the reason why it cannot be taken here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax

BinaryOp = Callable[[jax.Array, jax.Array], jax.Array]


class PathUnavailableError(Exception):
    """A path cannot be taken on this machine; the message is the reason that the report shows."""


@dataclass(frozen=True)
class Path:
    """An element-wise add of two float32 vectors, called in one particular way.

    Attributes:
        op: What a jitted function calls. It accepts tracers.
        eager: What a user calls outside ``jax.jit``.
        marker: Regular expression for the instruction that the compiled HLO must contain for the call to be there.
        modes: The modes this path takes part in; empty for all.
    """

    op: BinaryOp
    eager: BinaryOp
    marker: str
    modes: tuple[str, ...] = ()

    def takes_part(self, mode: str) -> bool:
        """Whether this path is measured in a mode."""
        return not self.modes or mode in self.modes


@dataclass(frozen=True)
class PathSpec:
    """A path before it is built.

    Attributes:
        name: Short, for the command line and the JSON.
        title: What the report calls it.
        build: Returns the path, or raises :class:`PathUnavailableError`. Optional libraries are imported here.
    """

    name: str
    title: str
    build: Callable[[], Path]


def custom_call(target: str) -> str:
    """The marker of a custom call whose target matches the regular expression ``target``."""
    return rf'custom_call_target="{target}"'


def elementwise_add(size: int) -> str:
    """The marker of XLA's own add of ``size`` float32 elements."""
    return rf"= f32\[{size}\]\S* add\("
