"""Names the inputs of an operator after the parameters of its reference."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any


def input_names(reference: Callable[..., Any], count: int) -> list[str]:
    """Returns a name for each of ``count`` inputs: the reference's parameters, or ``x0``, ``x1``, ... if they differ.

    Args:
        reference: An operator's reference, or the function that its author gave.
        count: How many inputs there are.
    """
    try:
        # An operator's reference takes any number of inputs; the function that its author gave has names for them.
        parameters = inspect.signature(getattr(reference, "given", reference)).parameters.values()
    except (TypeError, ValueError):
        return [f"x{index}" for index in range(count)]
    names = [each.name for each in parameters if each.kind is not each.VAR_KEYWORD]
    needed = [each.name for each in parameters if each.default is each.empty and each.kind is not each.VAR_KEYWORD]
    open_ended = any(each.kind is each.VAR_POSITIONAL for each in parameters)
    for found in (names, needed):
        if len(found) == count and not open_ended:
            return found
    return [f"x{index}" for index in range(count)]
