"""Holds the rules that the author of an operator has declared for JAX's transformations."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bridge.operator.call.dimensions import Dimensions

Rule = Callable[..., Any]


@dataclass(frozen=True)
class Rules:
    """The rules of an operator. They are part of every call, so a later rule does not change compiled programs.

    Attributes:
        jvp: See :meth:`bridge.XLACustomKernel.def_jvp`.
        vjp: The forward and the backward rule, see :meth:`bridge.XLACustomKernel.def_vjp`.
        transposes: Pairs of an operand and its rule, see :meth:`bridge.XLACustomKernel.def_transpose`. The operator is
            linear in each of these operands.
        batching: See :meth:`bridge.XLACustomKernel.def_batching`.
        dimensions: See :meth:`bridge.XLACustomKernel.def_partitioning`.
    """

    jvp: Rule | None = None
    vjp: tuple[Rule, Rule] | None = None
    transposes: tuple[tuple[int, Rule], ...] = ()
    batching: Rule | None = None
    dimensions: Dimensions | None = None


class Declarations:
    """The rules that are in force now. Thread-safe.

    Attributes:
        rules: The rules. A change replaces them as a whole.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.rules = Rules()

    def __getstate__(self) -> dict[str, Any]:
        return {"rules": self.rules}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.Lock())

    def change(self, change: Callable[[Rules], Rules]) -> None:
        """Replaces the rules with the result of ``change``."""
        with self._lock:
            self.rules = change(self.rules)
