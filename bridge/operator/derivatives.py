"""Applies operators to arrays, with the derivatives that their authors declare."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.interpreters import ad

from bridge.errors import DifferentiationError, SignatureError
from bridge.ffi.mesh.division import Names, split_of, with_sharding
from bridge.ffi.primitive import align_varying, mesh_of, result_avals
from bridge.operator.author_functions import flat_results, run_rule
from bridge.operator.operator_call import OperatorCall, Rule
from bridge.operator.primitive import OPERATOR, run_typed, with_split_batches


def run(call: OperatorCall, *args: Any) -> list[Any]:
    """Runs an operator in a function that JAX traces, with the derivative of ``def_vjp`` or ``def_jvp`` if any."""
    # Align outside of the function that has the derivative, so that gradients are summed over the mesh where needed.
    args = align_varying(args)
    if call.rules.vjp is not None:
        return _with_vjp(call, *call.rules.vjp)(*args)  # type: ignore[no-any-return]
    if call.rules.jvp is not None:
        return _with_jvp(call, call.rules.jvp)(*args)  # type: ignore[no-any-return]
    return OPERATOR.bind(call, *args)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _Saved:
    """What the backward rule of ``def_vjp`` gets from the forward rule, and the types of the arguments."""

    residuals: Any
    types: tuple[Any, ...] = field(metadata={"static": True})


def _with_vjp(call: OperatorCall, forward: Rule, backward: Rule) -> Callable[..., Any]:
    function = jax.custom_vjp(functools.partial(OPERATOR.bind, call))

    def run_forward(*args: Any) -> tuple[list[Any], _Saved]:
        who = "the forward rule of def_vjp"
        answer = _pair(call, who, run_rule(call, who, forward, *args), "what the backward rule needs")
        types = tuple(map(jax.typeof, args))
        results = flat_results(call, answer[0], who)
        typed = [with_sharding(r, own.sharding) for r, own in zip(results, result_avals(call, types), strict=True)]
        return typed, _Saved(answer[1], types)

    def run_backward(saved: _Saved, cotangents: Sequence[Any]) -> tuple[Any, ...]:
        real = [index for index, each in enumerate(saved.types) if _is_real(each)]

        def run(residuals: Any, given: Any) -> list[Any]:
            answer = run_rule(call, "the backward rule of def_vjp", backward, residuals, given)
            gradients = tuple(answer) if isinstance(answer, tuple | list) else (answer,)
            if len(gradients) != len(saved.types):
                raise SignatureError(
                    f"{call.name}: the backward rule of def_vjp returned {len(gradients)} gradients, expected one for "
                    f"each of the {len(saved.types)} arguments (None for integers and booleans)."
                )
            return [gradients[index] for index in real]

        given = [c if _is_real(spec) else None for c, spec in zip(cotangents, call.outputs, strict=True)]
        gradients = run_typed(run, (saved.residuals, given), [saved.types[index] for index in real])
        found = dict(zip(real, gradients, strict=True))
        return tuple(found.get(index) for index in range(len(saved.types)))

    function.defvjp(run_forward, run_backward)
    return function


def _with_jvp(call: OperatorCall, rule: Rule) -> Callable[..., Any]:
    function = jax.custom_jvp(functools.partial(OPERATOR.bind, call))

    @function.defjvp
    def run(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        types = result_avals(call, [jax.typeof(primal) for primal in primals])

        def both(primals: Any, given: Any) -> list[Any]:
            who = "the rule of def_jvp"
            answer = _pair(call, who, run_rule(call, who, rule, primals, given), "their tangents")
            results = flat_results(call, answer[0], who)
            derived = jax.tree.leaves(answer[1], is_leaf=lambda leaf: leaf is None)
            if len(derived) != len(results):
                raise SignatureError(
                    f"{call.name}: the rule of def_jvp returned {len(derived)} tangents, expected one for each of the "
                    f"{len(results)} results (None for integers and booleans)."
                )
            return [*results, *(tangent for each, tangent in zip(types, derived, strict=True) if _is_real(each))]

        given = tuple(t if _is_real(p) else None for p, t in zip(primals, tangents, strict=True))
        found = run_typed(both, (tuple(primals), given), [*types, *filter(_is_real, types)])
        results, derived = found[: len(types)], iter(found[len(types) :])
        return results, [_tangent(result, next(derived) if _is_real(result) else None) for result in results]

    return function


def _pair(call: OperatorCall, who: str, answer: Any, second: str) -> tuple[Any, Any]:
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise SignatureError(
            f"{call.name}: {who} returned {type(answer).__name__}, expected a pair of the results and {second}."
        )
    return answer


def _tangent(result: Any, tangent: Any) -> Any:
    if not _is_real(result):
        return np.zeros(result.shape, jax.dtypes.float0)
    return jnp.zeros_like(result) if tangent is None else tangent


def _is_real(array: Any) -> bool:
    """Whether an array has a derivative, because its dtype is a real or complex floating-point one."""
    return bool(jnp.issubdtype(array.dtype, jnp.inexact))


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, call: OperatorCall) -> tuple[list[Any], list[Any]]:
    """The derivative of the primitive in forward mode, along operands in which the operator is linear.

    The derivative along such an operand is the operator applied to its tangent.

    Raises:
        DifferentiationError: The operator is not declared linear in an operand that varies.
    """
    linear = dict(call.rules.transposes)
    moving = [index for index, tangent in enumerate(tangents) if not isinstance(tangent, ad.Zero)]
    if not linear:
        raise DifferentiationError(
            f"{call.name} has no derivative: JAX cannot see into its kernels. Declare one with def_vjp (reverse mode), "
            "def_jvp (forward mode) or def_transpose (linear operands); or keep it out of the differentiated path with "
            "jax.lax.stop_gradient."
        )
    for index in moving:
        if index not in linear:
            raise DifferentiationError(
                f"{call.name} was differentiated along operand {index}, but def_transpose declares it linear in "
                f"{', '.join(map(str, sorted(linear)))} only. Declare a derivative with def_vjp or def_jvp."
            )
    results = OPERATOR.bind(call, *primals)
    terms = [OPERATOR.bind(call, *[*primals[:index], tangents[index], *primals[index + 1 :]]) for index in moving]
    summed = [
        functools.reduce(jnp.add, each) if _is_real(result) else ad.Zero(jax.typeof(result).to_tangent_aval())
        for result, each in zip(results, zip(*terms, strict=True), strict=True)
    ]
    return results, summed


def _transpose(cotangents: Sequence[Any], *args: Any, call: OperatorCall) -> list[Any]:
    """The transpose of the primitive in one operand, by the rule of ``def_transpose``.

    Raises:
        DifferentiationError: There is no rule for the operand.
        SignatureError: The rule returns another shape or dtype than the operand's.
    """
    unknown = [index for index, arg in enumerate(args) if ad.is_undefined_primal(arg)]
    rules = dict(call.rules.transposes)
    if len(unknown) != 1 or unknown[0] not in rules:
        raise DifferentiationError(
            f"{call.name} was transposed in the operands {unknown}, expected one linear operand."
        )
    operand = unknown[0]
    if all(isinstance(cotangent, ad.Zero) for cotangent in cotangents):
        return [None] * len(args)
    instantiated = [ad.instantiate_zeros(cotangent) for cotangent in cotangents]
    cotangents, known = _split_alike(call, operand, args, instantiated)

    def run(cotangents: Any, known: Any) -> Any:
        return run_rule(call, "the rule of def_transpose", rules[operand], list(cotangents), *known)

    batched: Callable[..., Any] = run
    for extent, axes in call.batches:
        batched = _batched_transpose(batched, extent, axes, operand)
    expected = args[operand].aval
    (gradient,) = run_typed(lambda *arrays: [batched(*arrays)], (cotangents, known), [expected])
    if not hasattr(gradient, "shape") or gradient.shape != expected.shape or gradient.dtype != expected.dtype:
        got = f"{gradient.dtype}{list(gradient.shape)}" if hasattr(gradient, "shape") else type(gradient).__name__
        raise SignatureError(
            f"{call.name}: the rule of def_transpose for operand {operand} returned {got}, expected "
            f"{expected.dtype}{list(expected.shape)}."
        )
    return [gradient if index == operand else None for index in range(len(args))]


def _split_alike(
    call: OperatorCall, operand: int, args: Sequence[Any], cotangents: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    """The cotangents, and the arguments without the operand, with their batches split in the same way."""
    avals = [arg.aval if ad.is_undefined_primal(arg) else jax.typeof(arg) for arg in args]
    division = call.division(avals)
    split = split_of(division, avals, mesh_of(avals))
    known = [(arg, names) for arg, names in zip(args, division.operands, strict=True) if arg is not args[operand]]
    if split is None or not call.batches:
        return list(cotangents), [arg for arg, _ in known]

    def alike(array: Any, names: Names) -> Any:
        return with_split_batches(array, split.sharding(names), [names.index(b) for b in batches if b in names])

    batches = call.batch_names
    return list(map(alike, cotangents, division.results)), [alike(*each) for each in known]


def _batched_transpose(rule: Rule, extent: int, axes: Sequence[int | None], operand: int) -> Rule:
    known_axes = [axis for index, axis in enumerate(axes) if index != operand]

    def run(cotangents: Any, known: Any) -> Any:
        gradients = jax.vmap(rule, in_axes=(0, known_axes), axis_size=extent)(cotangents, known)
        axis = axes[operand]
        return gradients.sum(0) if axis is None else jnp.moveaxis(gradients, 0, axis)

    return run


for _primitive in OPERATOR.forms:
    ad.primitive_jvps[_primitive] = _jvp
    ad.primitive_transposes[_primitive] = _transpose
