"""The JAX primitive that calls an entry: arrays in, arrays out, with its rules for every transformation."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from bridge.errors import DifferentiationError, PlatformError
from bridge.ffi.avals import align_varying, result_aval
from bridge.ffi.target import Entry, Target


@dataclass(frozen=True)
class Call:
    """What is static about one call.

    Attributes:
        name: The kernel, for error messages.
        target: The FFI target to call.
        entry: The compiled kernel that the target finds for this call.
        outputs: Shape and dtype of each result, without batch dimensions.
        aliases: Pairs of input and output index that share one buffer.
        vmap_method: As in ``jax.ffi.ffi_call``; None runs the batch in native code.
        batch: Extents of the leading batch dimensions that all arguments and results have.
    """

    name: str
    target: Target
    entry: Entry
    outputs: tuple[tuple[tuple[int, ...], np.dtype[Any]], ...]
    aliases: tuple[tuple[int, int], ...] = ()
    vmap_method: str | None = None
    batch: tuple[int, ...] = ()

    def batched(self, extent: int) -> Call:
        """The same call with one more leading batch dimension."""
        return Call(
            self.name, self.target, self.entry, self.outputs, self.aliases, self.vmap_method, (extent, *self.batch)
        )


def bind(call: Call, *args: Any) -> list[jax.Array]:
    """Calls the entry on arrays that already have the shapes and dtypes it was compiled for."""
    results: list[jax.Array] = kernel_call_p.bind(*align_varying(args), call=call)
    return results


kernel_call_p = Primitive("kernel_call")
kernel_call_p.multiple_results = True


@kernel_call_p.def_impl
def _evaluate(*args: Any, call: Call) -> list[jax.Array]:
    with jax.disable_jit(False):
        results: list[jax.Array] = jax.jit(functools.partial(bind, call))(*args)
    return results


@kernel_call_p.def_abstract_eval
def _abstract(*avals: Any, call: Call) -> list[Any]:
    return [result_aval(avals, call.batch + shape, dtype) for shape, dtype in call.outputs]


def _lower(ctx: mlir.LoweringRuleContext, *operands: Any, call: Call) -> Any:
    platforms = tuple(ctx.platforms or ctx.module_context.platforms)
    if platforms != (call.target.platform,):
        raise PlatformError(
            f"{call.name} runs on {call.target.platform}, but is being lowered for {', '.join(platforms)}. Put its "
            f"inputs on a {call.target.platform} device (jax.device_put, jax.default_device), or register a kernel for "
            "each platform with XLACustomKernel."
        )
    if not ctx.module_context.lowering_parameters.for_export:
        # The executable keeps the machine code it calls; what is exported finds its own.
        ctx.module_context.add_keepalive(call.entry)
    rule = jax.ffi.ffi_lowering(call.target.name, operand_output_aliases=dict(call.aliases))
    return rule(ctx, *operands, key=np.int64(call.entry.key), kernel=call.entry.description)


mlir.register_lowering(kernel_call_p, _lower)


def _batch(args: tuple[Any, ...], dims: tuple[int | None, ...], *, call: Call) -> tuple[list[Any], list[int]]:
    extent = next(arg.shape[dim] for arg, dim in zip(args, dims, strict=True) if dim is not None)
    if call.vmap_method in ("sequential", "sequential_unrolled"):
        return _batch_sequentially(args, dims, call), [0] * len(call.outputs)
    aliased = {index for index, _ in call.aliases}

    def lead(index: int, arg: Any, dim: int | None) -> Any:
        if dim is not None:
            return jnp.moveaxis(arg, dim, 0)
        # An aliased input is the output's own buffer, so each element of the batch needs its copy.
        everywhere = index in aliased or call.vmap_method == "broadcast_all"
        return jnp.broadcast_to(arg[None], (extent if everywhere else 1, *arg.shape))

    leading = [lead(index, arg, dim) for index, (arg, dim) in enumerate(zip(args, dims, strict=True))]
    return bind(call.batched(extent), *leading), [0] * len(call.outputs)


def _batch_sequentially(args: tuple[Any, ...], dims: tuple[int | None, ...], call: Call) -> list[Any]:
    batched = {
        i: jnp.moveaxis(arg, dim, 0) for i, (arg, dim) in enumerate(zip(args, dims, strict=True)) if dim is not None
    }

    def body(carry: None, slices: dict[int, Any]) -> tuple[None, list[Any]]:
        return carry, bind(call, *(slices.get(i, arg) for i, arg in enumerate(args)))

    return jax.lax.scan(body, None, batched, unroll=call.vmap_method == "sequential_unrolled")[1]


batching.primitive_batchers[kernel_call_p] = _batch


def _no_derivative(*args: Any, call: Call, **_: Any) -> NoReturn:
    raise DifferentiationError(
        f"{call.name} has no derivative: JAX cannot see into a compiled kernel. Attach one by wrapping the call in "
        "jax.custom_vjp (reverse mode) or jax.custom_jvp (forward mode), as the docstring of bridge.numba_kernel "
        "shows; or keep it out of the differentiated path with jax.lax.stop_gradient on its inputs."
    )


ad.primitive_jvps[kernel_call_p] = _no_derivative
ad.primitive_transposes[kernel_call_p] = _no_derivative
