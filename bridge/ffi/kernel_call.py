"""Defines the JAX primitive that calls a compiled kernel, with its rules for lowering, ``vmap`` and derivatives."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from bridge.errors import DifferentiationError, PlatformError
from bridge.ffi.avals import align_varying, result_aval
from bridge.ffi.cuda import embedded
from bridge.ffi.plans import aliasing
from bridge.ffi.plans.poison import fills
from bridge.ffi.poisoned import poisoned
from bridge.ffi.target import Entry, Target, key_of


class Code(Protocol):
    """A kernel for the types of one call. Hashable, and equal to a code that runs the same machine code."""

    @property
    def platforms(self) -> tuple[str, ...]:
        """JAX's names of the platforms it runs on."""

    @property
    def scratch(self) -> tuple[int, ...]:
        """Bytes of each temporary buffer of a call. These are uint8 results after the kernel's own results."""

    @property
    def derivative_advice(self) -> str:
        """Tells the user, in an error, how to attach a derivative to this kernel, which has none."""

    def describe(self, platform: str) -> tuple[Target, str]:
        """The FFI target to call, and the description by which it finds the entry; compiles nothing."""

    def entry(self, platform: str) -> Entry:
        """The compiled kernel, which is compiled now if it is new."""

    def __hash__(self) -> int:
        """JAX finds compiled programs by it."""


ATTACH_A_RULE = (
    "Attach one: call it in a function that is decorated with jax.custom_vjp (reverse mode, with rules by defvjp) or "
    "jax.custom_jvp (forward mode), as the example in help(bridge.numba_kernel)."
)
"""Tells the user of a kernel without a derivative how to attach one."""


class Checks(Protocol):
    """The checks of every execution of a call, see :func:`bridge.debug_mode`. Hashable."""

    def around(self, call: Call, platform: str, exported: bool) -> Callable[..., list[Any]]:
        """A function of the arrays of a call, with batch dimensions, that makes the call and checks it.

        Raises:
            DebugError: The call is being exported; an exported program can hold no checks.
        """

    def __hash__(self) -> int:
        """JAX finds compiled programs by it, as part of a call."""


@dataclass(frozen=True)
class Call:
    """Everything about one call except its arrays.

    Attributes:
        name: The kernel, for error messages.
        code: The kernel to call.
        outputs: Shape and dtype of each result, without batch dimensions.
        aliases: Pairs of input and output index that share one buffer.
        vmap_method: As in ``jax.ffi.ffi_call``; None runs the batch in native code.
        has_side_effect: Run it even if nothing uses its results.
        batch: Extents of the leading batch dimensions that all arguments and results have.
        poison: The run, 0 or 1, whose pattern fills the outputs before the kernel runs; None to fill none. See
            :mod:`bridge.ffi.plans.poison`.
        checks: The checks to make when it runs.
        dropped: How many of the results, the last ones, the caller drops: they are no results of the kernel.
    """

    name: str
    code: Code
    outputs: tuple[tuple[tuple[int, ...], np.dtype[Any]], ...]
    aliases: tuple[tuple[int, int], ...] = ()
    vmap_method: str | None = None
    has_side_effect: bool = False
    batch: tuple[int, ...] = ()
    poison: int | None = field(default=None, repr=False)
    checks: Checks | None = field(default=None, repr=False)
    dropped: int = 0

    def batched(self, extent: int) -> Call:
        """The same call with one more leading batch dimension."""
        return replace(self, batch=(extent, *self.batch))


def bind(call: Call, *args: Any) -> list[jax.Array]:
    """Makes the call on arrays that already have the shapes and dtypes that its kernel is compiled for."""
    results: list[jax.Array] = kernel_call_p.bind(*align_varying(args), call=call)
    return results


kernel_call_p = Primitive("kernel_call")
kernel_call_p.multiple_results = True


@kernel_call_p.def_impl
def _evaluate(*args: Any, call: Call) -> list[jax.Array]:
    with jax.disable_jit(False):
        results: list[jax.Array] = jax.jit(functools.partial(bind, call))(*args)
    return results


@functools.cache
def side_effect() -> frozenset[Any]:
    """The effect that keeps JAX from dropping a foreign call; JAX offers it only as part of such a call."""
    call = jax.ffi.ffi_call("", jax.ShapeDtypeStruct((), np.float32), has_side_effect=True)
    return frozenset(jax.make_jaxpr(call)().effects)


@kernel_call_p.def_effectful_abstract_eval
def _abstract(*avals: Any, call: Call) -> tuple[list[Any], frozenset[Any]]:
    effects = side_effect() if call.has_side_effect else frozenset()
    return [result_aval(avals, call.batch + shape, dtype) for shape, dtype in call.outputs], effects


def _lower(ctx: mlir.LoweringRuleContext, *operands: Any, call: Call, platform: str | None) -> Any:
    if platform not in call.code.platforms:
        wanted = platform or ", ".join(ctx.platforms or ctx.module_context.platforms)
        have = " or ".join(call.code.platforms)
        raise PlatformError(
            f"{call.name} runs on {have}, but is being lowered for {wanted}. Put its inputs on a {have} device "
            "(jax.device_put, jax.default_device), or register a kernel for each platform with XLACustomKernel."
        )
    if call.checks is not None:
        exported = ctx.module_context.lowering_parameters.for_export
        checked = call.checks.around(replace(call, checks=None), platform, exported)
        return mlir.lower_fun(checked, multiple_results=True)(ctx, *operands)
    target, description = call.code.describe(platform)
    # A program can be exported for a platform that this machine lacks: it finds its kernels where it runs.
    if not ctx.module_context.lowering_parameters.for_export:
        # The executable keeps the machine code it calls.
        ctx.module_context.add_keepalive(call.code.entry(platform))
    elif available(platform):
        call.code.entry(platform)
    attributes: dict[str, Any] = {"kernel": description}
    if call.aliases and platform == "cuda":
        attributes["aliases"] = aliasing.pairs(call.aliases, ctx.avals_out)
    if ctx.module_context.lowering_parameters.for_export and platform == "cuda" and embedded.is_wanted():
        attributes["code"] = call.code.entry(platform).embedded()
    if call.poison is not None:
        target = poisoned(target)
        target.install()
        attributes["fills"] = fills(ctx.avals_out, {output for _, output in call.aliases}, call.poison)
    rule = jax.ffi.ffi_lowering(
        target.name, operand_output_aliases=dict(call.aliases), has_side_effect=call.has_side_effect
    )
    return rule(ctx, *operands, key=np.int64(key_of(description)), **attributes)


def available(platform: str) -> bool:
    """Whether JAX has a device of this platform."""
    try:
        return bool(jax.local_devices(backend=platform))
    except RuntimeError:
        return False


mlir.register_lowering(kernel_call_p, functools.partial(_lower, platform=None))
for _platform in ("cpu", "cuda"):
    mlir.register_lowering(kernel_call_p, functools.partial(_lower, platform=_platform), platform=_platform)


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
        f"{call.name} has no derivative: JAX cannot see into a compiled kernel. {call.code.derivative_advice} Or keep "
        "it out of the differentiated path with jax.lax.stop_gradient on its inputs."
    )


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, call: Call) -> tuple[list[Any], list[Any]]:
    """Results that are integers or booleans have zero tangents; others have no derivative."""
    if any(jnp.issubdtype(dtype, jnp.inexact) for _, dtype in call.outputs[: len(call.outputs) - call.dropped]):
        _no_derivative(call=call)
    results = kernel_call_p.bind(*primals, call=call)
    return results, [ad.Zero(jax.typeof(result).to_tangent_aval()) for result in results]


ad.primitive_jvps[kernel_call_p] = _jvp
ad.primitive_transposes[kernel_call_p] = _no_derivative
