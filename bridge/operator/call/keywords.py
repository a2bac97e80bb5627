"""Holds the keyword parameters of a call to what the functions of an operator's author take."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any

from bridge.errors import ParameterError, SignatureError

OUTS = "outs"
"""What generators and rules get besides the parameters of the call."""


def check_keywords(
    function: Callable[..., Any],
    keywords: Collection[str],
    operator: str,
    who: str,
    arguments: int = 0,
    configured: Mapping[str, str] | None = None,
) -> None:
    """Says what is wrong with a call of a function before it is called: nothing that it raises itself is hidden.

    Args:
        function: A generator, a rule, or ``outs`` of an operator.
        keywords: Names of what it is to get by name.
        operator: The operator, for errors.
        who: The function, for errors.
        arguments: How many arguments it gets by position.
        configured: By name, the configuration that a keyword comes from, if it is not from the call.

    Raises:
        ParameterError: The call passes a parameter that the function does not take, or leaves one out.
        SignatureError: The function takes another number of arguments, or no ``outs``.
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # of a function in C
        return
    fixed = function.keywords if isinstance(function, functools.partial) else {}
    by_position = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    arrays = [p.name for p in by_position if p.kind is p.POSITIONAL_ONLY or p.name not in keywords]
    if arguments > len(arrays) and not any(p.kind is p.VAR_POSITIONAL for p in parameters):
        raise SignatureError(
            f"operator {operator!r}: {who} takes {len(arrays)} arguments ({', '.join(arrays)}), but the call passes "
            f"{arguments}. Make the call and its parameters agree."
        )
    passed = {p.name for p in by_position[:arguments]}
    named = {p.name: p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
    takes = [name for name in named if name not in passed and name not in fixed and name != OUTS]
    lists = f"it takes {', '.join(takes) or 'none'}" if takes or not takes_any else "it takes any"
    unknown = [] if takes_any else [name for name in keywords if name not in named or name in passed]
    if OUTS in unknown:
        raise SignatureError(
            f"operator {operator!r}: {who} takes no keyword parameter {OUTS!r}, through which it gets the shapes and "
            f"dtypes of the results. Add it: def {getattr(function, '__name__', 'f')}(..., {OUTS}, **parameters)."
        )
    missing = [
        name
        for name, p in named.items()
        if p.default is p.empty and name not in keywords and name not in passed and name not in fixed
    ]
    for name in unknown:
        source = (configured or {}).get(name)
        origin = f" from its configuration {source}" if source else ""
        raise ParameterError(f"operator {operator!r}: {who} got an unknown parameter {name!r}{origin}; {lists}.")
    if missing:
        listed = ", ".join(map(repr, missing))
        raise ParameterError(
            f"operator {operator!r}: {who} lacks the parameter {listed}; {lists}. Pass it by name in the call."
        )
