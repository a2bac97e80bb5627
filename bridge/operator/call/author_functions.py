"""Calls the generators and rules of an operator's author, and checks that they fit the call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from bridge.errors import ParameterError, SignatureError
from bridge.operator.call.declared import Rule
from bridge.operator.call.keywords import check_keywords
from bridge.operator.call.operator_call import OperatorCall
from bridge.operator.choice.candidates import Candidate


def generated_kernel(call: OperatorCall, candidate: Candidate) -> Callable[..., Any]:
    """The function of the input arrays that the generator of a candidate returns for a call.

    Raises:
        ParameterError: The call has parameters that the generator does not take, lacks some, or passes one that the
            configuration sets.
        SignatureError: The generator does not return a function.
    """
    options = dict(candidate.options.items)
    twice = sorted(call.keywords.keys() & options.keys())
    if twice:
        raise ParameterError(
            f"{call.name}: the call passes {', '.join(twice)}, but so does the configuration of "
            f"{candidate.reference}. Leave it out of the call, or name another configuration with backend=."
        )
    check_keywords(
        candidate.generator,
        [*call.keywords, *options],
        call.name,
        f"backend {candidate.backend!r}",
        configured=dict.fromkeys(options, candidate.reference),
    )
    try:
        kernel = candidate.generator(**call.keywords, **options)
    except Exception as error:
        error.add_note(f"(raised by the {candidate.reference} generator of the operator {call.name})")
        raise
    if not callable(kernel):
        raise SignatureError(
            f"{call.name}: the {candidate.backend} generator returned {kernel!r}, expected a function of the arrays."
        )
    return kernel


def run_rule(call: OperatorCall, who: str, rule: Rule, *args: Any) -> Any:
    """The result of a rule for these arguments and the keywords of the call.

    Args:
        call: The call.
        who: The rule, for errors.
        rule: A function that the author declared.
        *args: Its positional arguments.

    Raises:
        ParameterError: The call has parameters that the rule does not take, or lacks some.
    """
    check_keywords(rule, call.keywords, call.name, who, len(args))
    return rule(*args, **call.keywords)


def flat_results(call: OperatorCall, results: Any, who: str) -> list[Any]:
    """Flattens the results of a kernel or rule: one array, or a tuple, list or other pytree of arrays.

    Raises:
        SignatureError: Their shapes and dtypes are not the ones that the call declares.
    """
    arrays = jax.tree.leaves(results)
    got = [(np.shape(array), jax.dtypes.result_type(array)) for array in arrays]
    expected = [(spec.shape, spec.dtype) for spec in call.outputs]
    if got != expected:
        raise SignatureError(
            f"{call.name}: {who} returned {_listed(got)}, but outs declares {_listed(expected)}. Make outs of the call "
            "and these results agree."
        )
    return arrays


def _listed(arrays: Sequence[tuple[tuple[int, ...], Any]]) -> str:
    return ", ".join(f"{dtype}{list(shape)}" for shape, dtype in arrays) or "nothing"
