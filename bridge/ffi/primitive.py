"""Defines primitives of calls: how a call is bound, typed, evaluated and split over devices, whatever it runs.

Calls of kernels and calls of operators are such primitives, and differ in what their lowering runs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Protocol, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir
from jax.sharding import NamedSharding, PartitionSpec

from bridge.compat.jax import require_devices, side_effect
from bridge.ffi.mesh.automatic import automatic_axes, partitioned, partitioned_context
from bridge.ffi.mesh.division import Division, Parts, Split, run_split, split_of


class DividedCall(Protocol):
    """Everything about one call except its arrays. Hashable: equal calls run the same program."""

    @property
    def name(self) -> str:
        """The kernel or operator, for errors."""

    @property
    def has_side_effect(self) -> bool:
        """Whether it runs even if nothing uses its results."""

    @property
    def results(self) -> Sequence[tuple[tuple[int, ...], np.dtype[Any]]]:
        """Shape and dtype of each result, with batch dimensions."""

    @property
    def is_checked(self) -> bool:
        """Whether debug mode checks it."""

    @property
    def may_be_split(self) -> bool:
        """Whether XLA's partitioner may split it."""

    def division(self, args: Sequence[Any]) -> Division:
        """The dimensions of the call on arguments of these shapes."""

    def part(self, args: Sequence[Any], parts: Parts) -> Self:
        """The call on a part of these arguments."""


Composed = tuple[Callable[..., Any], mlir.LoweringRuleContext]
"""A function of the arrays of a call, and the context in which to lower it."""


class CallPrimitive:
    """The primitive that carries a call until it is lowered.

    It has two forms, which differ only in what their lowering knows. JAX lowers the second one, for calls that XLA's
    partitioner may have to split, for known devices only.

    Args:
        name: Names it in jaxprs.
        lower: Lowers a call: takes context, operands, ``call``, ``platform``, and whether it is the second form.
        batch: The batching rule.
        platforms: The platforms to lower for; None stands for all others.
    """

    def __init__(
        self, name: str, lower: Callable[..., Any], batch: Callable[..., Any], platforms: Sequence[str | None]
    ) -> None:
        self.forms = Primitive(name), Primitive(f"partitioned_{name}")
        evaluate = _evaluation(self.bind)
        for spread, primitive in enumerate(self.forms):
            primitive.multiple_results = True
            primitive.def_impl(evaluate)
            primitive.def_effectful_abstract_eval(_abstract)
            batching.primitive_batchers[primitive] = batch
            for platform in platforms:
                rule = functools.partial(lower, platform=platform, spread=bool(spread))
                mlir.register_lowering(primitive, rule, platform=platform)
        require_devices(self.forms[1])

    def bind(self, call: DividedCall, *args: Any) -> list[jax.Array]:
        """Makes a call on arrays or tracers; returns a flat list of results."""
        args = align_varying(args)
        spread = bool(args) and _may_be_partitioned(mesh_of(list(map(jax.typeof, args))))
        results: list[jax.Array] = self.forms[spread].bind(*args, call=call)
        return results

    def split_over_devices(self, ctx: mlir.LoweringRuleContext, call: DividedCall, spread: bool) -> Composed | None:
        """The function that makes a call on the parts that each device has; None if the call is not split."""
        avals = ctx.avals_in
        mesh = mesh_of(avals) if avals else None
        if mesh is None or (mesh.empty and not spread):
            return None
        division = call.division(avals)

        def part(parts: Parts) -> Callable[..., list[Any]]:
            return functools.partial(self.bind, call.part(avals, parts))

        if (split := split_of(division, avals, mesh)) is not None:
            return run_split(split, division, part), ctx
        if not call.may_be_split:
            return None
        if call.is_checked:
            # Not partitioned: JAX frees the callbacks of a part once the part is lowered, but XLA calls them later.
            if division.splittable and partitioned_context(ctx, division, mesh) is not None:
                division.warn_of_no_split("is watched (by debug mode or tune)")
            return None
        if call.has_side_effect:
            # XLA drops a partitioned call whose results nothing uses, and refuses to split one with side effects.
            if not (axes := automatic_axes(mesh)):
                return None
            division.warn_of_no_split("has side effects")
            return run_split(Split(mesh, axes, {}, ()), division, part), ctx
        context = partitioned_context(ctx, division, mesh)
        return (partitioned(division, part, mesh), context) if context else None


def _may_be_partitioned(mesh: Any) -> bool:
    """Whether XLA may have to split a call on arrays of this mesh, so that its lowering must know the devices.

    A mesh without devices is only good for exporting a program, which is not split.
    """
    if mesh.empty:
        return jax.device_count() > 1
    return bool(automatic_axes(mesh)) and mesh.abstract_device is not None


def _abstract(*avals: Any, call: DividedCall) -> tuple[list[Any], frozenset[Any]]:
    return result_avals(call, avals), frozenset([side_effect()] if call.has_side_effect else [])


def result_avals(call: DividedCall, avals: Sequence[Any]) -> list[jax.core.ShapedArray]:
    """The types of the results of a call on arrays of these types."""
    division, mesh = call.division(avals), mesh_of(avals) if avals else None
    split = None if mesh is None or mesh.empty else split_of(division, avals, mesh)
    return [
        result_aval(avals, shape, dtype, split.sharding(names) if split else None)
        for (shape, dtype), names in zip(call.results, division.results, strict=True)
    ]


def varying_axes(aval: Any) -> frozenset[Any]:
    """Mesh axes of the surrounding ``shard_map`` over which a value differs between devices."""
    manual = getattr(aval, "manual_axis_type", None)  # jax >= 0.10
    return manual.varying if manual is not None else getattr(aval, "vma", frozenset())


def align_varying(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Marks all arguments as varying over the mesh axes that any of them varies over.

    Operations with several operands require this under ``shard_map(check_vma=True)``; elsewhere nothing changes.
    """
    axes = [varying_axes(jax.typeof(arg)) for arg in args]
    union = frozenset().union(*axes)
    return tuple(
        jax.lax.pcast(arg, tuple(union - own), to="varying") if own != union else arg
        for arg, own in zip(args, axes, strict=True)
    )


def mesh_of(avals: Sequence[Any]) -> Any:
    """The mesh of one or more arrays; an empty mesh if none of them has one."""
    meshes = [aval.sharding.mesh for aval in avals]
    return next((mesh for mesh in meshes if not mesh.empty), meshes[0])


def result_aval(
    inputs: Sequence[Any], shape: tuple[int, ...], dtype: Any, sharding: NamedSharding | None = None
) -> jax.core.ShapedArray:
    """The abstract value of a result that varies like the (aligned) inputs.

    Args:
        inputs: The abstract values of the inputs.
        shape: Shape of the result.
        dtype: Dtype of the result.
        sharding: The part of its sharding that is in its type; by default it is not split.
    """
    if not inputs:
        return jax.core.ShapedArray(shape, dtype)
    sharding = sharding or NamedSharding(mesh_of(inputs), PartitionSpec(*[None] * len(shape)))
    aval: jax.core.ShapedArray = inputs[0].update(shape=shape, dtype=dtype, weak_type=False, sharding=sharding)
    return aval


def element_bits(dtype: Any) -> int:
    """Bits of an element in XLA's memory, which packs elements of less than a byte."""
    item_bytes: int = np.dtype(dtype).itemsize
    if item_bytes > 1 or np.dtype(dtype) == np.bool_:
        return 8 * item_bytes
    limits: Any = jnp.iinfo if jnp.issubdtype(dtype, np.integer) else jnp.finfo
    return int(limits(dtype).bits)


def _evaluation(bind: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """The evaluation rule of a primitive. It compiles once for each call and each set of types."""
    compiled = jax.jit(bind, static_argnums=0)

    def evaluate(*args: Any, call: Any) -> list[Any]:
        # After a NaN, JAX evaluates a program again, operation by operation, and so comes back here. The call is one of
        # these operations: it is not evaluated again, but checked as a whole.
        with jax.disable_jit(False), jax.debug_nans(False), jax.debug_infs(False):
            results: list[Any] = compiled(call, *args)
        if jax.config.jax_debug_nans:  # type: ignore[attr-defined]
            _check(call, results, "nan", np.isnan)
        if jax.config.jax_debug_infs:  # type: ignore[attr-defined]
            _check(call, results, "inf", np.isinf)
        return results

    return evaluate


def _check(call: DividedCall, results: Sequence[Any], kind: str, found: Callable[[Any], Any]) -> None:
    """Raises the error that JAX raises for an operation of its own with such a result."""
    for result in results:
        if jnp.issubdtype(result.dtype, jnp.inexact):
            parts = (np.asarray(shard.data) for shard in result.addressable_shards)
            if any(found(part).any() for part in parts):
                raise FloatingPointError(f"invalid value ({kind}) encountered in {call.name}")
