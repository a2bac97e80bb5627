"""Declares known limitations: the author of an operator names the cells whose checks must fail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from suites.backends.backend import Backend
from suites.declare import fields
from suites.errors import OperatorError


@dataclass(frozen=True)
class Limitation:
    """A known limitation. Its checks must fail: the session fails if one of them passes.

    Attributes:
        reason: Why it does not work, with a link where there is one.
        backends: The backends where it does not work, or their names.
        dtypes: The dtypes where it does not work; empty means all.
        edges: The edge cases where it does not work; empty means all of them and the ordinary samples.
        checks: The checks that fail, by name, as reports show them; empty means all.
    """

    reason: str
    backends: Sequence[Any]
    dtypes: Sequence[Any] = ()
    edges: Sequence[str] = ()
    checks: Sequence[str] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.reason, str) or not self.reason.strip():
            raise OperatorError(f"Limitation: reason is {self.reason!r}, expected why it does not work.")
        normal = {
            "backends": fields.backends("Limitation: backends", self.backends),
            "dtypes": fields.dtypes("Limitation: dtypes", self.dtypes) if len(self.dtypes) else (),
            "edges": (self.edges,) if isinstance(self.edges, str) else tuple(self.edges),
            "checks": fields.texts("Limitation: checks", self.checks, "checks"),
        }
        for name, value in normal.items():
            object.__setattr__(self, name, value)

    def applies(self, backend: Backend, dtype: str, edge: str | None = None) -> bool:
        """Whether the checks of this backend, dtype and edge case (None: an ordinary sample) must fail."""
        return (
            backend in self.backends
            and (not self.dtypes or dtype in self.dtypes)
            and (not self.edges or edge in self.edges)
        )
