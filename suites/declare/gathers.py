"""Declares the scattered reads of an operator, which limit it more than its bytes do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from suites.errors import OperatorError


class ScatteredReads(NamedTuple):
    """The scattered reads of one call: how many, and from how large an array of what elements, in bytes."""

    reads: int
    table_bytes: int
    element_bytes: int


@dataclass(frozen=True)
class Gathers:
    """Says that a call reads single elements at places that its inputs name, as a sparse product does.

    A GPU moves at least 32 bytes for each of them. So the rate of such reads, which ``bench`` measures for an array of
    this size, limits the call, and not the bandwidth.

    Attributes:
        reads: Takes inputs. Returns how many elements a call reads so.
        table: Takes inputs. Returns the array that they are read from.
    """

    reads: Callable[..., int]
    table: Callable[..., Any]

    def __post_init__(self) -> None:
        for name in ("reads", "table"):
            if not callable(getattr(self, name)):
                raise OperatorError(f"Gathers: {name} is {getattr(self, name)!r}, expected a function of the inputs.")

    def of(self, *inputs: Any) -> ScatteredReads:
        """The scattered reads of a call with these inputs."""
        table = self.table(*inputs)
        return ScatteredReads(int(self.reads(*inputs)), int(table.nbytes), int(table.dtype.itemsize))
