"""Describes one call of an operator as plain data, which identifies a compiled program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import jax

from bridge.operator.call.declared import Rules
from bridge.operator.choice.candidates import Choice
from bridge.operator.static_parameters import Parameters

Function = Callable[..., list[Any]]
"""A function of arrays that returns a flat list of arrays."""


class OperatorChecks(Protocol):
    """Checks that a call makes at every execution, see :func:`bridge.debug_mode`. Hashable."""

    def around(self, call: OperatorCall, platform: str, exported: bool) -> Function:
        """A function of the (batched) arrays of a call that runs its kernel and checks it.

        Raises:
            DebugError: The call is being exported; an exported program can hold no checks.
        """

    def __hash__(self) -> int:
        """It identifies a compiled program, as part of a call."""


@dataclass(frozen=True)
class OperatorCall:
    """The static part of one call of an operator. Hashable.

    Attributes:
        name: The operator.
        choice: The kernel to run on each platform.
        outputs: Shape and dtype of each result, without batch dimensions.
        parameters: Keyword parameters for the generator.
        rules: The rules that the author declared.
        has_side_effect: Run it even if nothing uses its results.
        batches: Extent and input axes of each surrounding ``vmap``, innermost first.
        checks: The checks of the debug mode in which it was traced.
    """

    name: str
    choice: Choice
    outputs: tuple[jax.ShapeDtypeStruct, ...]
    parameters: Parameters
    rules: Rules = field(default_factory=Rules)
    has_side_effect: bool = False
    batches: tuple[tuple[int, tuple[int | None, ...]], ...] = ()
    checks: OperatorChecks | None = None

    def __repr__(self) -> str:
        return f"{self.name}[{', '.join(f'{c.platform}: {c.reference}' for c in self.choice)}]"

    @property
    def keywords(self) -> dict[str, Any]:
        """The keyword arguments of generators and rules: ``outs``, and the parameters of the call."""
        return {"outs": self.outputs, **dict(self.parameters.items)}
