"""Declares known limitations: the author of an operator names the edge cases that must fail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from suites.backends.backend import Backend
from suites.declare import fields
from suites.errors import OperatorError


@dataclass(frozen=True)
class Limitation:
    """A known limitation. Its edge cases must fail: the session fails if one of them passes.

    Attributes:
        reason: Why it does not work, with a link where there is one.
        backends: The backends where it does not work, or their names.
        edges: The edge cases where it does not work.
        dtypes: The dtypes where it does not work; empty means all.
    """

    reason: str
    backends: Sequence[Any]
    edges: Sequence[str]
    dtypes: Sequence[Any] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.reason, str) or not self.reason.strip():
            raise OperatorError(f"Limitation: reason is {self.reason!r}, expected why it does not work.")
        normal = {
            "backends": fields.backends("Limitation: backends", self.backends),
            "edges": (self.edges,) if isinstance(self.edges, str) else tuple(self.edges),
            "dtypes": fields.dtypes("Limitation: dtypes", self.dtypes) if len(self.dtypes) else (),
        }
        for name, value in normal.items():
            object.__setattr__(self, name, value)

    def applies(self, backend: Backend, dtype: str, edge: str | None) -> bool:
        """Whether the check of this edge case must fail; None is an ordinary sample."""
        return edge in self.edges and backend in self.backends and (not self.dtypes or dtype in self.dtypes)
