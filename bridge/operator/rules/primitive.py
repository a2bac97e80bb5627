"""Defines the JAX primitives of operators. They carry a call until its platform is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
from jax.extend.core import Primitive

from bridge.ffi.avals import align_varying, result_aval
from bridge.ffi.evaluation import evaluation
from bridge.ffi.kernel_call import side_effect
from bridge.ffi.mesh.automatic import may_be_partitioned, require_devices
from bridge.ffi.mesh.division import split_of
from bridge.operator.call.operator_call import OperatorCall
from bridge.operator.rules.partition import division_of


def bind(call: OperatorCall, *args: Any) -> list[Any]:
    """Calls an operator on arrays or tracers; returns a flat list of results."""
    args = align_varying(args)
    spread = may_be_partitioned([jax.typeof(arg) for arg in args])
    results: list[Any] = (partitioned_operator_p if spread else operator_p).bind(*args, call=call)
    return results


def result_avals(call: OperatorCall, avals: Sequence[Any]) -> list[jax.core.ShapedArray]:
    """The types of the results of a call on arrays of these types."""
    extents = tuple(extent for extent, _ in reversed(call.batches))
    division = division_of(call, avals)
    split = split_of(division, avals)
    return [
        result_aval(avals, extents + spec.shape, spec.dtype, split.sharding(names) if split else None)
        for spec, names in zip(call.outputs, division.results, strict=True)
    ]


_evaluate = evaluation(bind)


def _abstract(*avals: Any, call: OperatorCall) -> tuple[list[Any], frozenset[Any]]:
    return result_avals(call, avals), side_effect() if call.has_side_effect else frozenset()


def _primitive(name: str) -> Primitive:
    primitive = Primitive(name)
    primitive.multiple_results = True
    primitive.def_impl(_evaluate)
    primitive.def_effectful_abstract_eval(_abstract)
    return primitive


operator_p = _primitive("xla_custom_kernel")
partitioned_operator_p = _primitive("partitioned_xla_custom_kernel")
"""The primitive of calls that XLA's partitioner may have to split. JAX lowers it for known devices only."""
require_devices(partitioned_operator_p)

PRIMITIVES = (operator_p, partitioned_operator_p)
