"""Describes one call of an operator as plain data, which identifies a compiled program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import jax
import numpy as np

from bridge.operator.call.declared import Rules
from bridge.operator.choice.candidates import Choice

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
        parameters: Keyword parameters for the generator, sorted by name.
        rules: The rules that the author declared.
        has_side_effect: Run it even if nothing uses its results.
        batches: Extent and input axes of each surrounding ``vmap``, innermost first.
        checks: The checks of the debug mode in which it was traced.
        kinds: One entry for each parameter. It tells apart values that Python calls equal: 1.0 and 1, or -0.0 and 0.0.
    """

    name: str
    choice: Choice
    outputs: tuple[jax.ShapeDtypeStruct, ...]
    parameters: tuple[tuple[str, Any], ...]
    rules: Rules = field(default_factory=Rules)
    has_side_effect: bool = False
    batches: tuple[tuple[int, tuple[int | None, ...]], ...] = ()
    checks: OperatorChecks | None = None
    kinds: tuple[Any, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "kinds", tuple(_kind(value) for _, value in self.parameters))

    def __repr__(self) -> str:
        return f"{self.name}[{', '.join(f'{c.platform}: {c.reference}' for c in self.choice)}]"

    @property
    def keywords(self) -> dict[str, Any]:
        """The keyword arguments of generators and rules: ``outs``, and the parameters of the call."""
        return {"outs": self.outputs, **dict(self.parameters)}


def _kind(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_kind, value))
    return (type(value), repr(value)) if isinstance(value, float | complex | np.generic) else type(value)
