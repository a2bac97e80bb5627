"""Checks the keyword parameters of a call against the signature of a function that an operator's author wrote."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any

from bridge.errors import ParameterError, SignatureError

OUTS = "outs"
"""The keyword argument that generators and rules get besides the parameters of the call."""


def check_keywords(
    function: Callable[..., Any],
    keywords: Collection[str],
    operator: str,
    who: str,
    arguments: int = 0,
    configured: Mapping[str, str] | None = None,
) -> None:
    """Finds parameters that a function does not take or lacks, before the function is called.

    The function is not called here, so its own errors are never hidden or explained wrongly.

    Args:
        function: A generator, a rule, or ``outs`` of an operator.
        keywords: Names of its keyword arguments.
        operator: The operator, for errors.
        who: The function, for errors.
        arguments: The number of its positional arguments.
        configured: For each keyword that a configuration sets, the name of the configuration.

    Raises:
        ParameterError: The call passes a parameter that the function does not take, or leaves one out.
        SignatureError: The function takes another number of arguments, or no ``outs``.
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # a function in C has no signature
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
