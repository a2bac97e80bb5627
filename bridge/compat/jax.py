"""Holds what the bridge uses of JAX's insides.

- `_src.ffi._FfiEffect`: keeps JAX from dropping a call with side effects. Unnecessary if `jax.ffi` had it by a public
  name.
- `_src.dispatch.prim_requires_devices_during_lowering`: JAX tells the lowering rule of a primitive in this set for
  which devices it lowers. Unnecessary if `jax.extend` could register such a primitive.
- `_src.util.weakref_cache_key_types`: JAX's cache of abstract evaluations holds types in this set weakly, so that
  kernels are freed. Unnecessary if it held no parameters of primitives. An older JAX has no such set, and keeps 2048.
- `module_context.axis_context`: says for how many devices, and under which mesh, a program is lowered. Unnecessary if
  lowering rules were told.
- `module_context.keepalives`: keeps what XLA's partitioner calls until the program is compiled; a list of our own can
  be left out when a compiled program is saved. Unnecessary if JAX could save programs with custom partitioning.
- `module_context.lowering_parameters.for_export`: an exported program holds no address of this process. Unnecessary if
  lowering rules were told.
- `module_context.cached_primitive_lowerings`: equal `jax.jit` functions of a program are lowered once; a dictionary of
  its own for each platform keeps the kernels of several platforms apart. Unnecessary if JAX looked at the platform.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import jax
from jax.interpreters import mlir

from bridge.compat.library import Library, reasons
from bridge.errors import AbiError

if TYPE_CHECKING:
    from jax.extend.core import Primitive  # takes as long to import as the bridge

LIBRARY = Library("jax", "0.9.0", "0.12", reasons(__doc__))


def side_effect() -> Any:
    """The effect that keeps JAX from dropping a foreign call."""
    return LIBRARY.get(jax, "_src.ffi._FfiEffect")


def require_devices(primitive: Primitive) -> None:
    """Makes JAX tell the lowering rule of a primitive for which devices it lowers."""
    LIBRARY.get(jax, "_src.dispatch.prim_requires_devices_during_lowering").add(primitive)


def hold_weakly(kind: type) -> None:
    """Makes JAX's cache of abstract evaluations let go of a parameter of this type that no program refers to."""
    with contextlib.suppress(AbiError):
        LIBRARY.get(jax, "_src.util.weakref_cache_key_types").add(kind)


def is_exported(ctx: mlir.LoweringRuleContext) -> bool:
    """Whether the program that is being lowered is for other processes."""
    return bool(LIBRARY.get(ctx, "module_context.lowering_parameters.for_export"))


def axis_context(ctx: mlir.LoweringRuleContext) -> Any:
    """For which devices, and under which mesh, a program is being lowered."""
    return LIBRARY.get(ctx, "module_context.axis_context")


def device_count(ctx: mlir.LoweringRuleContext) -> int:
    """The number of devices of the program that is being lowered; contexts of ``shard_map`` have a mesh instead."""
    context = axis_context(ctx)
    mesh = getattr(context, "mesh", None)
    return int(getattr(context, "num_devices", 1) if mesh is None else mesh.size)


def with_mesh(ctx: mlir.LoweringRuleContext, mesh: Any) -> mlir.LoweringRuleContext:
    """The context in which XLA's partitioner splits an operation; it knows the mesh, unless that is None.

    A program that is compiled in it can be saved.
    """
    shared, context, held = ctx.module_context, axis_context(ctx), _Held()
    LIBRARY.get(shared, "keepalives").append(held)
    context = context if mesh is None else replace(context, abstract_mesh=mesh)
    known: mlir.LoweringRuleContext = ctx.replace(module_context=shared.replace(axis_context=context, keepalives=held))
    return known


class _Held(list[Any]):
    """What XLA's partitioner needs until the program is compiled. A compiled program can be saved without it."""

    def __reduce__(self) -> tuple[type[_Held], tuple[()]]:
        return _Held, ()


def of_one_platform(ctx: mlir.LoweringRuleContext, platform: str) -> mlir.LoweringRuleContext:
    """A context that does not share the code of ``jax.jit`` functions with other platforms of the same program.

    JAX lowers equal ``jax.jit`` functions of a program once, even if the program is for several platforms. The kernel
    of the first platform would run on all of them.
    """
    if len(LIBRARY.get(ctx, "module_context.platforms")) == 1:
        return ctx
    shared = ctx.module_context
    own = LIBRARY.get(shared, "cached_primitive_lowerings").setdefault((of_one_platform, platform), {})
    apart: mlir.LoweringRuleContext = ctx.replace(module_context=shared.replace(cached_primitive_lowerings=own))
    return apart
