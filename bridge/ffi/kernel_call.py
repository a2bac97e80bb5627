"""Defines the JAX primitive that calls a compiled kernel, with its rules for lowering, ``vmap`` and derivatives."""

from __future__ import annotations

import abc
import functools
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax.interpreters import ad, mlir

from bridge.compat.jax import device_count, is_exported
from bridge.errors import DifferentiationError, PlatformError
from bridge.ffi.cuda import driver
from bridge.ffi.mesh.division import Division, Parts
from bridge.ffi.plans import poison
from bridge.ffi.primitive import CallPrimitive, element_bits
from bridge.ffi.target import CPU, CPU_PARALLEL, Target, key_of, require_own_process

ATTACH_A_RULE = (
    "Attach one: call it in a function that is decorated with jax.custom_vjp (reverse mode, with rules by defvjp) or "
    "jax.custom_jvp (forward mode), as the example in help(bridge.numba_kernel)."
)
"""Tells the user of a kernel without a derivative how to attach one."""


@dataclass(frozen=True)
class Call(abc.ABC):
    """Everything about one call except its arrays. Subclasses add the kernel, and find its machine code.

    JAX finds compiled programs by it: equal calls run the same machine code.

    Attributes:
        name: The kernel, for error messages.
        outputs: Shape and dtype of each result, without batch dimensions.
        aliases: Pairs of input and output index that share one buffer.
        vmap_method: As in ``jax.ffi.ffi_call``; None runs the batch in native code, and ``"parallel"`` lets XLA's
            threads share it.
        has_side_effect: Run it even if nothing uses its results.
        hidden: Number of the last outputs that are no results: temporary buffers, and copies of inputs.
        guards: Number of the last aliases that only keep an input unchanged, because the kernel may write to it.
        whole: Every device runs the whole call where XLA's partitioner could split it. Nothing warns of that.
        batch: Extents of the leading batch dimensions that all arguments and results have. An argument may have the
            extent 1 instead, and then every element of the batch gets the same.
        poison: The run, 0 or 1, whose pattern fills the outputs before the kernel runs; None to fill none. See
            :mod:`bridge.ffi.plans.poison`.
        checks: The checks to make when it runs, see :func:`bridge.debug_mode`. They are hashable: JAX finds compiled
            programs by them. ``checks.around(call, platform, exported)`` is a function of the arrays of the call, which
            makes and checks it.
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
    checks: Any = field(default=None, repr=False)

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

    def carried(self, platform: str) -> str:
        """The machine code, for a program that another process may run; empty if the program gets none."""
        return ""

    def one_device(self, platform: str) -> str:
        """Why no program of several devices can make the call; empty if they can."""
        return ""

    @property
    def derivative_advice(self) -> str:
        """Tells the user, in an error, how to attach a derivative to this kernel, which has none."""
        return ATTACH_A_RULE

    @property
    def used(self) -> tuple[tuple[tuple[int, ...], np.dtype[Any]], ...]:
        """The outputs that the caller uses."""
        return self.outputs[: len(self.outputs) - self.hidden]

    @property
    def results(self) -> tuple[tuple[tuple[int, ...], np.dtype[Any]], ...]:
        """The outputs with batch dimensions."""
        return tuple((self.batch + shape, dtype) for shape, dtype in self.outputs)

    @property
    def is_checked(self) -> bool:
        """Whether debug mode checks it."""
        return self.checks is not None

    @property
    def may_be_split(self) -> bool:
        """Whether XLA's partitioner may split it, or warns that it cannot."""
        return not self.whole

    def division(self, args: Sequence[Any]) -> Division:
        """The dimensions of the call: those of its batch can be split, and no others."""
        rank = len(self.batch)

        def operand(index: int, shape: tuple[int, ...]) -> tuple[Any, ...]:
            return tuple(
                dimension if dimension < rank and extent == self.batch[dimension] else ("operand", index, dimension)
                for dimension, extent in enumerate(shape)
            )

        def result(index: int, shape: tuple[int, ...]) -> tuple[Any, ...]:
            return (*range(rank), *(("result", index, dimension) for dimension in range(len(shape))))

        operands = tuple(operand(index, arg.shape) for index, arg in enumerate(args))
        results = tuple(result(index, shape) for index, (shape, _) in enumerate(self.outputs))
        return Division(self.name, operands, results, frozenset(range(rank)))

    def part(self, args: Sequence[Any], parts: Parts) -> Self:
        """The call on a part of its batch."""
        return replace(self, batch=tuple(each // parts.get(at, 1) for at, each in enumerate(self.batch)))


def bind(call: Call, *args: Any) -> list[jax.Array]:
    """Makes the call on arrays that already have the shapes and dtypes that its kernel is compiled for.

    Raises:
        ForkedProcessError: This process was forked after a kernel had been called.
    """
    require_own_process(call.name)
    return KERNEL_CALL.bind(call, *args)


def _lower(ctx: mlir.LoweringRuleContext, *operands: Any, call: Call, platform: str | None, spread: bool) -> Any:
    if platform is None or platform not in call.platforms:
        wanted = platform or ", ".join(ctx.platforms or ctx.module_context.platforms)
        have = " or ".join(call.platforms)
        raise PlatformError(
            f"{call.name} runs on {have}, but is being lowered for {wanted}. Put its inputs on a {have} device "
            "(jax.device_put, jax.default_device), or register a kernel for each platform with XLACustomKernel."
        )
    count = device_count(ctx)
    if count > 1 and (why := call.one_device(platform)):
        raise PlatformError(f"{call.name} cannot run on {count} devices: {why}")
    exported = is_exported(ctx)
    if spread and not exported:
        call.entry(platform)  # An error in the program of a part would not reach the caller as it is.
    function, context = KERNEL_CALL.split_over_devices(ctx, call, spread) or (None, ctx)
    if function is None and call.checks is not None:
        function = call.checks.around(replace(call, checks=None), platform, exported)
    # XLA packs elements of less than a byte, so that an element of a batch may begin inside of one.
    elif (
        function is None
        and call.batch
        and (
            call.vmap_method in ("sequential", "sequential_unrolled")
            or any(element_bits(array.dtype) < 8 for array in (*ctx.avals_in, *ctx.avals_out))
        )
    ):
        function = functools.partial(_run_sequentially, call)
    if function is None:
        return _lower_native(ctx, *operands, call=call, platform=platform)
    return mlir.lower_fun(function, multiple_results=True)(context, *operands)


def _lower_native(ctx: mlir.LoweringRuleContext, *operands: Any, call: Call, platform: str) -> Any:
    target, description = call.describe(platform)
    exported = is_exported(ctx)
    attributes: dict[str, Any] = {"kernel": description}
    if exported:
        call.check_export(platform)
        attributes["code"] = call.carried(platform)
    # A program can be exported for a platform that this machine lacks: it finds its kernels where it runs.
    if not exported or available(platform):
        call.entry(platform)
    if target is CPU and call.batch and call.vmap_method == "parallel" and not call.has_side_effect:
        target = CPU_PARALLEL
        target.install()
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


def _poisoned(target: Target) -> Target:
    """The target that runs the kernels of a target after it has filled their outputs.

    A lock, because XLA takes one registration of a name, and a cache alone may make two in two threads.
    """
    with _lock:
        if target not in _poisoned_targets:
            on_cpu = target.platform == "cpu"
            fill = poison.fill_host if on_cpu else driver.fill_and_wait
            _poisoned_targets[target] = target.variant("_poisoned", fill, on_cpu)
        return _poisoned_targets[target]


_lock, _poisoned_targets = threading.Lock(), dict[Target, Target]()


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
    return bind(replace(call, batch=(extent, *call.batch)), *leading), [0] * len(call.outputs)


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
    if any(jnp.issubdtype(dtype, jnp.inexact) for _, dtype in call.used):
        _no_derivative(call=call)
    results = bind(call, *primals)
    return results, [ad.Zero(jax.typeof(result).to_tangent_aval()) for result in results]


KERNEL_CALL = CallPrimitive("kernel_call", _lower, _batch, (None, "cpu", "cuda"))
"""The primitive of a call of a kernel."""

for _form in KERNEL_CALL.forms:
    ad.primitive_jvps[_form] = _jvp
    ad.primitive_transposes[_form] = _no_derivative
