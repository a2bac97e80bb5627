"""Calls the generators and rules of an operator's author, and checks that they fit the call."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from bridge.errors import ParameterError, SignatureError
from bridge.operator.operator_call import Candidate, OperatorCall, Rule


def check_fits(function: Callable[..., Any], args: Sequence[Any], keywords: Mapping[str, Any], who: str) -> None:
    """Checks the arguments of a function before it is called. So its own errors are never explained wrongly.

    Raises:
        ParameterError: The function does not take one of the arguments, or lacks one.
    """
    try:
        signature = inspect.signature(function)
    except ValueError:  # a function in C has no signature
        return
    try:
        signature.bind(*args, **keywords)
    except TypeError as error:
        raise ParameterError(
            f"{who} takes {signature}: {error}. Make the call and these parameters agree; pass parameters by name."
        ) from None


def generated_kernel(call: OperatorCall, candidate: Candidate) -> Callable[..., Any]:
    """The function of the input arrays that the generator of a candidate returns for a call.

    Raises:
        ParameterError: The call has parameters that the generator does not take, lacks some, or passes one that the
            configuration sets.
        SignatureError: The generator does not return a function.
    """
    options = dict(candidate.options.items)
    if twice := sorted(call.keywords.keys() & options.keys()):
        raise ParameterError(
            f"{call.name}: the call passes {', '.join(twice)}, but so does the configuration of "
            f"{candidate.reference}. Leave it out of the call, or name another configuration with backend=."
        )
    keywords = {**call.keywords, **options}
    check_fits(
        candidate.generator, (), keywords, f"operator {call.name!r}: the generator of backend {candidate.reference!r}"
    )
    try:
        kernel = candidate.generator(**keywords)
    except Exception as error:
        error.add_note(f"(raised by the {candidate.reference} generator of the operator {call.name})")
        raise
    if not callable(kernel):
        raise SignatureError(
            f"{call.name}: the {candidate.backend} generator returned {kernel!r}, expected a function of the arrays."
        )
    return kernel


def run_rule(call: OperatorCall, who: str, rule: Rule, *args: Any) -> Any:
    """The result of a rule, which errors call ``who``, for these arguments and the keywords of the call.

    Raises:
        ParameterError: The call has parameters that the rule does not take, or lacks some.
    """
    check_fits(rule, args, call.keywords, f"operator {call.name!r}: {who}")
    try:
        return rule(*args, **call.keywords)
    except Exception as error:
        given = ", ".join(str(getattr(arg, "aval", arg)) for arg in args)
        error.add_note(f"(raised by {who} of the operator {call.name}, which got {given})")
        raise


def flat_results(call: OperatorCall, results: Any, who: str) -> list[Any]:
    """Flattens the results of a kernel or rule: one array, or a tuple, list or other pytree of arrays.

    Raises:
        SignatureError: Their shapes and dtypes are not the ones that the call declares.
    """
    arrays = jax.tree.leaves(results)
    got = [f"{jax.dtypes.result_type(array)}{list(np.shape(array))}" for array in arrays]
    expected = [f"{spec.dtype}{list(spec.shape)}" for spec in call.outputs]
    if got != expected:
        raise SignatureError(
            f"{call.name}: {who} returned {', '.join(got) or 'nothing'}, but outs declares {', '.join(expected)}. Make "
            "outs of the call and these results agree."
        )
    return arrays
