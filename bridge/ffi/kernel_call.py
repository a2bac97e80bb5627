"""Defines the JAX primitive that calls a compiled kernel, with its rules for lowering, ``vmap`` and derivatives."""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from bridge.compat import jax as compat
from bridge.errors import DifferentiationError, PlatformError
from bridge.ffi import forked
from bridge.ffi.avals import align_varying, element_bits, result_aval
from bridge.ffi.cuda import execution
from bridge.ffi.mesh.automatic import (
    may_be_partitioned,
    partitioned,
    partitioned_context,
    whole_on_each_device,
)
from bridge.ffi.mesh.division import Division, Parts, split_of
from bridge.ffi.mesh.explicit import run_split
from bridge.ffi.plans import poison
from bridge.ffi.target import Target, key_of

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
class Call(abc.ABC):
    """Everything about one call except its arrays. Subclasses add the kernel, and find its machine code.

    JAX finds compiled programs by it: equal calls run the same machine code.

    Attributes:
        name: The kernel, for error messages.
        outputs: Shape and dtype of each result, without batch dimensions.
        aliases: Pairs of input and output index that share one buffer.
        vmap_method: As in ``jax.ffi.ffi_call``; None runs the batch in native code.
        has_side_effect: Run it even if nothing uses its results.
        hidden: Number of the last outputs that are no results: temporary buffers, and copies of inputs.
        guards: Number of the last aliases that only keep an input unchanged, because the kernel may write to it.
        whole: Every device runs the whole call where XLA's partitioner could split it. Nothing warns of that.
        batch: Extents of the leading batch dimensions that all arguments and results have. An argument may have the
            extent 1 instead, and then every element of the batch gets the same.
        poison: The run, 0 or 1, whose pattern fills the outputs before the kernel runs; None to fill none. See
            :mod:`bridge.ffi.plans.poison`.
        checks: The checks to make when it runs.
    """

    name: str
    outputs: tuple[tuple[tuple[int, ...], np.dtype[Any]], ...]
    aliases: tuple[tuple[int, int], ...] = ()
    vmap_method: str | None = None
    has_side_effect: bool = False
    hidden: int = 0
    guards: int = 0
    whole: bool = False
    batch: tuple[int, ...] = ()
    poison: int | None = field(default=None, repr=False)
    checks: Checks | None = field(default=None, repr=False)

    @property
    @abc.abstractmethod
    def platforms(self) -> tuple[str, ...]:
        """JAX's names of the platforms that the kernel runs on."""

    @abc.abstractmethod
    def describe(self, platform: str) -> tuple[Target, str]:
        """The FFI target to call, and the description by which it finds the kernel."""

    @abc.abstractmethod
    def entry(self, platform: str) -> int:
        """The address of the kernel's plan; compiles and loads the kernel if it is new."""

    def check_export(self, platform: str) -> None:
        """Raises BridgeError if no program for another process can call the kernel."""
        return

    def one_device(self, platform: str) -> str:
        """Why no program of several devices can make the call; empty if they can."""
        return ""

    @property
    def derivative_advice(self) -> str:
        """Tells the user, in an error, how to attach a derivative to this kernel, which has none."""
        return ATTACH_A_RULE

    @property
    def results(self) -> tuple[tuple[tuple[int, ...], np.dtype[Any]], ...]:
        """The outputs that the caller uses."""
        return self.outputs[: len(self.outputs) - self.hidden]

    def unguarded(self) -> Call:
        """The same call without the guards: the kernel gets the inputs themselves."""
        return replace(self, aliases=self.aliases[: len(self.aliases) - self.guards], guards=0)

    def batched(self, extent: int) -> Call:
        """The same call with one more leading batch dimension."""
        return replace(self, batch=(extent, *self.batch))


def bind(call: Call, *args: Any) -> list[jax.Array]:
    """Makes the call on arrays that already have the shapes and dtypes that its kernel is compiled for.

    Raises:
        ForkedProcessError: This process was forked after XLA had started.
    """
    forked.require_own_process(call.name)
    args = align_varying(args)
    spread = may_be_partitioned([jax.typeof(arg) for arg in args])
    results: list[jax.Array] = (partitioned_kernel_call_p if spread else kernel_call_p).bind(*args, call=call)
    return results


def _abstract(*avals: Any, call: Call) -> tuple[list[Any], frozenset[Any]]:
    division = _division(call, avals)
    split = split_of(division, avals)
    results = [
        result_aval(avals, call.batch + shape, dtype, split.sharding(names) if split else None)
        for (shape, dtype), names in zip(call.outputs, division.results, strict=True)
    ]
    return results, frozenset([compat.side_effect()] if call.has_side_effect else [])


def _division(call: Call, avals: Sequence[Any]) -> Division:
    """The batch dimensions of a call can be split, and no others."""
    rank = len(call.batch)

    def operand(index: int, shape: tuple[int, ...]) -> tuple[Any, ...]:
        return tuple(
            dimension if dimension < rank and extent == call.batch[dimension] else ("operand", index, dimension)
            for dimension, extent in enumerate(shape)
        )

    def result(index: int, shape: tuple[int, ...]) -> tuple[Any, ...]:
        return (*range(rank), *(("result", index, dimension) for dimension in range(len(shape))))

    return Division(
        call.name,
        tuple(operand(index, aval.shape) for index, aval in enumerate(avals)),
        tuple(result(index, shape) for index, (shape, _) in enumerate(call.outputs)),
        frozenset(range(rank)),
    )


Composed = tuple[Callable[..., Any], mlir.LoweringRuleContext]


def _part(call: Call, parts: Parts) -> Callable[..., list[Any]]:
    """The call on a part of its batch."""
    batch = tuple(extent // parts.get(dimension, 1) for dimension, extent in enumerate(call.batch))
    return functools.partial(bind, replace(call, batch=batch))


def _lower(ctx: mlir.LoweringRuleContext, *operands: Any, call: Call, platform: str | None) -> Any:
    if platform is None or platform not in call.platforms:
        wanted = platform or ", ".join(ctx.platforms or ctx.module_context.platforms)
        have = " or ".join(call.platforms)
        raise PlatformError(
            f"{call.name} runs on {have}, but is being lowered for {wanted}. Put its inputs on a {have} device "
            "(jax.device_put, jax.default_device), or register a kernel for each platform with XLACustomKernel."
        )
    count = compat.device_count(ctx)
    if count > 1 and (why := call.one_device(platform)):
        raise PlatformError(f"{call.name} cannot run on {count} devices: {why}")
    lowered = _composed(ctx, call, platform)
    if lowered is None:
        return _lower_native(ctx, *operands, call=call, platform=platform)
    function, context = lowered
    return mlir.lower_fun(function, multiple_results=True)(context, *operands)


def _composed(ctx: mlir.LoweringRuleContext, call: Call, platform: str) -> Composed | None:
    """The function of other calls by which a call is run, and where; None if it is a single call of native code."""
    division = _division(call, ctx.avals_in)
    split = split_of(division, ctx.avals_in)
    part = functools.partial(_part, call)
    if split is not None:
        return run_split(split, division, part), ctx
    if call.checks is not None:
        # Not partitioned: JAX frees the callbacks of a part once the part is lowered, but XLA calls them later.
        if division.splittable and partitioned_context(ctx, division) is not None:
            division.warn_of_no_split("is checked by debug mode")
        return call.checks.around(replace(call, checks=None), platform, compat.is_exported(ctx)), ctx
    if call.has_side_effect and (whole := whole_on_each_device(division, ctx.avals_in)) is not None:
        return run_split(whole, division, part), ctx
    partitioner = None if call.whole else partitioned_context(ctx, division)
    if partitioner is not None:
        call.entry(platform)  # An error in the program of a part would not reach the caller as it is.
        return partitioned(division, part, ctx.avals_in), partitioner
    # XLA packs elements of less than a byte, so that an element of a batch may begin inside of one.
    is_packed = any(element_bits(array.dtype) < 8 for array in (*ctx.avals_in, *ctx.avals_out))
    if call.batch and (is_packed or call.vmap_method in ("sequential", "sequential_unrolled")):
        return functools.partial(_run_sequentially, call), ctx
    return None


def _lower_native(ctx: mlir.LoweringRuleContext, *operands: Any, call: Call, platform: str) -> Any:
    target, description = call.describe(platform)
    exported = compat.is_exported(ctx)
    if exported:
        call.check_export(platform)
    # A program can be exported for a platform that this machine lacks: it finds its kernels where it runs.
    if not exported or available(platform):
        call.entry(platform)
    attributes: dict[str, Any] = {"kernel": description}
    if call.poison is not None:
        target = _poisoned(target)
        target.install()
        attributes["fills"] = poison.fills(ctx.avals_out, {output for _, output in call.aliases}, call.poison)
    rule = jax.ffi.ffi_lowering(
        target.name, operand_output_aliases=dict(call.aliases), has_side_effect=call.has_side_effect
    )
    if platform == "cuda":
        operands = (*_apart(ctx, ctx.avals_in, operands),)
    results = rule(ctx, *operands, key=np.int64(key_of(description)), **attributes)
    return _apart(ctx, ctx.avals_out, results) if platform == "cuda" else results


def _apart(ctx: mlir.LoweringRuleContext, avals: Sequence[Any], values: Sequence[Any]) -> Sequence[Any]:
    """The arrays behind a barrier, so that XLA fuses no slice of a larger array into a call, and no update of one.

    Since jaxlib 0.11 it would do so on GPUs: a kernel would get addresses that are multiples of no more than the size
    of an element. And in ``x.at[:n].set(f(x[:n]))`` it would read and write the same memory.
    """
    barrier = mlir.lower_fun(lambda *arrays: jax.lax.optimization_barrier(arrays), multiple_results=True)
    apart: Sequence[Any] = barrier(ctx.replace(avals_in=avals, avals_out=avals), *values)
    return apart


@functools.cache
def _poisoned(target: Target) -> Target:
    """The target that runs the kernels of a target after it has filled their outputs."""
    on_cpu = target.platform == "cpu"
    return target.variant("_poisoned", poison.fill_host if on_cpu else execution.fill_and_wait, on_cpu)


def available(platform: str) -> bool:
    """Whether JAX has a device of this platform."""
    try:
        return bool(jax.local_devices(backend=platform))
    except RuntimeError:
        return False


def _batch(args: tuple[Any, ...], dims: tuple[int | None, ...], *, call: Call) -> tuple[list[Any], list[int]]:
    extent = next(arg.shape[dim] for arg, dim in zip(args, dims, strict=True) if dim is not None)
    aliased = {index for index, _ in call.aliases}

    def lead(index: int, arg: Any, dim: int | None) -> Any:
        if dim is not None:
            return jnp.moveaxis(arg, dim, 0)
        # An aliased input is the output's own buffer, so each element of the batch needs its copy.
        everywhere = index in aliased or call.vmap_method == "broadcast_all"
        return jnp.broadcast_to(arg[None], (extent if everywhere else 1, *arg.shape))

    leading = [lead(index, arg, dim) for index, (arg, dim) in enumerate(zip(args, dims, strict=True))]
    return bind(call.batched(extent), *leading), [0] * len(call.outputs)


def _run_sequentially(call: Call, *args: Any) -> list[Any]:
    """Runs one call for each element of the outermost batch dimension."""
    one = replace(call, batch=call.batch[1:])
    batched = {index: arg for index, arg in enumerate(args) if arg.shape[0] == call.batch[0]}

    def body(carry: None, slices: dict[int, Any]) -> tuple[None, list[Any]]:
        return carry, bind(one, *(slices[index] if index in slices else arg[0] for index, arg in enumerate(args)))

    unroll = call.vmap_method == "sequential_unrolled"
    results: list[Any] = jax.lax.scan(body, None, batched, length=call.batch[0], unroll=unroll)[1]
    return results


def _no_derivative(*args: Any, call: Call, **_: Any) -> NoReturn:
    raise DifferentiationError(
        f"{call.name} has no derivative: JAX cannot see into a compiled kernel. {call.derivative_advice} Or keep "
        "it out of the differentiated path with jax.lax.stop_gradient on its inputs."
    )


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, call: Call) -> tuple[list[Any], list[Any]]:
    """Results that are integers or booleans have zero tangents; others have no derivative."""
    if any(jnp.issubdtype(dtype, jnp.inexact) for _, dtype in call.results):
        _no_derivative(call=call)
    results = bind(call, *primals)
    return results, [ad.Zero(jax.typeof(result).to_tangent_aval()) for result in results]


def evaluation(bind: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """The evaluation rule of a primitive. It compiles once for each call and each set of types.

    Args:
        bind: Makes a call: a function of the call and of its arrays.
    """
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


def _check(call: Any, results: Sequence[Any], kind: str, found: Callable[[Any], Any]) -> None:
    """Raises the error that JAX raises for an operation of its own with such a result."""
    for result in results:
        if jnp.issubdtype(result.dtype, jnp.inexact):
            parts = (np.asarray(shard.data) for shard in result.addressable_shards)
            if any(found(part).any() for part in parts):
                raise FloatingPointError(f"invalid value ({kind}) encountered in {call.name}")


def _primitive(name: str) -> Primitive:
    primitive = Primitive(name)
    primitive.multiple_results = True
    primitive.def_impl(evaluation(bind))
    primitive.def_effectful_abstract_eval(_abstract)
    mlir.register_lowering(primitive, functools.partial(_lower, platform=None))
    for platform in ("cpu", "cuda"):
        mlir.register_lowering(primitive, functools.partial(_lower, platform=platform), platform=platform)
    batching.primitive_batchers[primitive] = _batch
    ad.primitive_jvps[primitive] = _jvp
    ad.primitive_transposes[primitive] = _no_derivative
    return primitive


kernel_call_p = _primitive("kernel_call")
partitioned_kernel_call_p = _primitive("partitioned_kernel_call")
"""The primitive of calls that XLA's partitioner may have to split. JAX lowers it for known devices only."""
compat.require_devices(partitioned_kernel_call_p)

KERNEL_CALLS = (kernel_call_p, partitioned_kernel_call_p)
"""The primitives of a call of a kernel. They differ only in what their lowering knows."""
