"""Defines the JAX primitives of operators. They carry a call until its platform is known."""

from __future__ import annotations

from typing import Any

from jax.extend.core import Primitive

from bridge.ffi.avals import align_varying, result_aval
from bridge.ffi.evaluation import evaluation
from bridge.ffi.kernel_call import side_effect
from bridge.operator.call.operator_call import OperatorCall


def bind(call: OperatorCall, *args: Any) -> list[Any]:
    """Calls an operator on arrays or tracers; returns a flat list of results."""
    primitive = operator_p if call.rules.dimensions is None else partitioned_operator_p
    results: list[Any] = primitive.bind(*align_varying(args), call=call)
    return results


_evaluate = evaluation(bind)


def _abstract(*avals: Any, call: OperatorCall) -> tuple[list[Any], frozenset[Any]]:
    extents = tuple(extent for extent, _ in reversed(call.batches))
    results = [result_aval(avals, extents + spec.shape, spec.dtype) for spec in call.outputs]
    return results, side_effect() if call.has_side_effect else frozenset()


def _primitive(name: str) -> Primitive:
    primitive = Primitive(name)
    primitive.multiple_results = True
    primitive.def_impl(_evaluate)
    primitive.def_effectful_abstract_eval(_abstract)
    return primitive


operator_p = _primitive("xla_custom_kernel")
partitioned_operator_p = _primitive("partitioned_xla_custom_kernel")
"""The primitive of operators that may be split over devices. JAX lowers it for known devices only."""

PRIMITIVES = (operator_p, partitioned_operator_p)
