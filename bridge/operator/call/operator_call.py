"""The JAX primitive behind every operator: it carries the choice of kernels to where the platform is known."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

from bridge.debug.checking import checked, not_exported, unchecked
from bridge.debug.mode import Debug, kernel_modes
from bridge.errors import ParameterError, SignatureError
from bridge.ffi.avals import align_varying, result_aval
from bridge.ffi.kernel_call import side_effect
from bridge.operator.choice.candidates import Choice, candidate_for
from bridge.operator.call.keywords import check_keywords
from bridge.operator.call.declared import Rule, Rules
from bridge.operator.rules.partition import partitioned, require_devices


@dataclass(frozen=True)
class OperatorCall:
    """What is static about one call of an operator; hashable, so that it identifies a compiled program.

    Attributes:
        name: The operator.
        choice: The kernel to run on each platform.
        outputs: Shape and dtype of each result, without batch dimensions.
        parameters: Keyword parameters for the generator, sorted by name.
        rules: What the author declared of the operator.
        has_side_effect: Run it even if nothing uses its results.
        batches: Extent and input axes of each surrounding ``vmap``, innermost first.
        debug: The checks of :func:`bridge.debug_mode`, where it was in force.
        kinds: Of each parameter, what tells it from another that is equal to it, such as 1.0 from 1 and -0.0 from 0.0.
    """

    name: str
    choice: Choice
    outputs: tuple[jax.ShapeDtypeStruct, ...]
    parameters: tuple[tuple[str, Any], ...]
    rules: Rules = field(default_factory=Rules)
    has_side_effect: bool = False
    batches: tuple[tuple[int, tuple[int | None, ...]], ...] = ()
    debug: Debug | None = None
    kinds: tuple[Any, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "kinds", tuple(_kind(value) for _, value in self.parameters))

    def __repr__(self) -> str:
        return f"{self.name}[{', '.join(f'{c.platform}: {c.reference}' for c in self.choice)}]"

    def kernel(self, platform: str) -> Callable[..., list[Any]]:
        """The selected kernel as a function of (batched) arrays that returns a flat list of arrays."""
        candidate = candidate_for(self.choice, platform, self.name)
        twice = sorted(self.keywords.keys() & dict(candidate.options).keys())
        if twice:
            raise ParameterError(
                f"{self.name}: the call passes {', '.join(twice)}, but so does the configuration of "
                f"{candidate.reference}. Leave it out of the call, or name another configuration with backend=."
            )
        check_keywords(
            candidate.generator,
            [*self.keywords, *dict(candidate.options)],
            self.name,
            f"backend {candidate.backend!r}",
            configured=dict.fromkeys(dict(candidate.options), candidate.reference),
        )
        try:
            kernel = candidate.generator(**self.keywords, **dict(candidate.options))
        except Exception as error:
            error.add_note(f"(raised by the {candidate.reference} generator of the operator {self.name})")
            raise
        if not callable(kernel):
            raise SignatureError(
                f"{self.name}: the {candidate.backend} generator returned {kernel!r}, expected a function of the "
                "arrays."
            )

        def run(*args: Any) -> list[Any]:
            return self.flatten(kernel(*args), f"the {candidate.backend} kernel")

        batched: Callable[..., list[Any]] = run
        for extent, axes in self.batches:
            batched = jax.vmap(batched, in_axes=axes, axis_size=extent)
        if kernel_modes.current():
            batched = unchecked(batched)
        if self.debug is None:
            return batched
        others = (each for each in self.debug.reference if each.platform == platform and each != candidate)
        reference = [replace(self, choice=(other,), debug=None).kernel(platform) for other in others]
        return checked(self, candidate, batched, reference[0] if reference else None)

    @property
    def keywords(self) -> dict[str, Any]:
        """What generators and rules get by name: ``outs``, and the parameters of the call."""
        return {"outs": self.outputs, **dict(self.parameters)}

    def run_rule(self, who: str, rule: Rule, *args: Any) -> Any:
        """What a rule returns for these arguments and the keywords of the call.

        Args:
            who: The rule, for errors.
            rule: A function that the author declared.
            *args: What it gets by position.

        Raises:
            ParameterError: The call has parameters that the rule does not take, or lacks some.
        """
        check_keywords(rule, self.keywords, self.name, who, len(args))
        return rule(*args, **self.keywords)

    def flatten(self, results: Any, who: str) -> list[Any]:
        """The results of a kernel or rule, which may be one array, or a tuple, list or other pytree of them.

        Raises:
            SignatureError: They are not what the call declares.
        """
        arrays = jax.tree.leaves(results)
        got = [(np.shape(array), jax.dtypes.result_type(array)) for array in arrays]
        expected = [(spec.shape, spec.dtype) for spec in self.outputs]
        if got != expected:
            raise SignatureError(
                f"{self.name}: {who} returned {_listed(got)}, but outs declares {_listed(expected)}. Make outs of the "
                "call and these results agree."
            )
        return arrays


def _kind(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_kind, value))
    return (type(value), repr(value)) if isinstance(value, float | complex | np.generic) else type(value)


def _listed(arrays: Sequence[tuple[tuple[int, ...], Any]]) -> str:
    return ", ".join(f"{dtype}{list(shape)}" for shape, dtype in arrays) or "nothing"


def bind(call: OperatorCall, *args: Any) -> list[Any]:
    """Calls the operator on arrays or tracers; a flat list of results."""
    primitive = operator_p if call.rules.dimensions is None else partitioned_operator_p
    results: list[Any] = primitive.bind(*align_varying(args), call=call)
    return results


@functools.partial(jax.jit, static_argnums=0)
def _compiled(call: OperatorCall, *args: Any) -> list[Any]:
    return bind(call, *args)


def _evaluate(*args: Any, call: OperatorCall) -> list[Any]:
    with jax.disable_jit(False):
        results: list[Any] = _compiled(call, *args)
    return results


def _abstract(*avals: Any, call: OperatorCall) -> tuple[list[Any], frozenset[Any]]:
    extents = tuple(extent for extent, _ in reversed(call.batches))
    results = [result_aval(avals, extents + spec.shape, spec.dtype) for spec in call.outputs]
    return results, side_effect() if call.has_side_effect else frozenset()


def _lower(ctx: mlir.LoweringRuleContext, *operands: Any, call: OperatorCall, platform: str) -> Any:
    # An exported program holds no Python that a partitioner could call; a manually sharded one has its part already.
    spread = getattr(ctx.module_context.axis_context, "num_devices", 1) > 1
    exported = ctx.module_context.lowering_parameters.for_export
    if exported and call.debug is not None:
        raise not_exported(call.name)
    # With checks, each device runs all of it: JAX frees the callbacks of a part when it is lowered, and XLA calls them.
    if call.rules.dimensions is not None and spread and not exported and call.debug is None:
        kernel = partitioned(call, platform, ctx.avals_in)
    else:
        kernel = call.kernel(platform)
    return mlir.lower_fun(kernel, multiple_results=True)(_of_one_platform(ctx, platform), *operands)


def _of_one_platform(ctx: mlir.LoweringRuleContext, platform: str) -> mlir.LoweringRuleContext:
    """Keeps what is lowered for one of several platforms apart.

    JAX lowers equal ``jax.jit`` functions of a program once, also for different platforms: the kernel of the first
    platform would run on all of them.
    """
    shared = ctx.module_context
    if len(shared.platforms) == 1:
        return ctx
    own = shared.cached_primitive_lowerings.setdefault((operator_p, platform), {})
    apart: mlir.LoweringRuleContext = ctx.replace(module_context=shared.replace(cached_primitive_lowerings=own))
    return apart


def _batch(args: tuple[Any, ...], dims: tuple[int | None, ...], *, call: OperatorCall) -> tuple[list[Any], list[int]]:
    extent = next(arg.shape[dim] for arg, dim in zip(args, dims, strict=True) if dim is not None)
    if call.rules.batching is not None:
        return _batch_by_rule(args, dims, extent, call), [0] * len(call.outputs)
    batched = replace(call, batches=(*call.batches, (extent, tuple(dims))))
    return bind(batched, *args), [0] * len(call.outputs)


def _batch_by_rule(args: tuple[Any, ...], dims: tuple[int | None, ...], extent: int, call: OperatorCall) -> list[Any]:
    assert call.rules.batching is not None
    leading = [arg if dim is None else jnp.moveaxis(arg, dim, 0) for arg, dim in zip(args, dims, strict=True)]
    batched_args = tuple(dim is not None for dim in dims)
    results = call.run_rule("the batching rule", call.rules.batching, extent, batched_args, *leading)
    batched = tuple(jax.ShapeDtypeStruct((extent, *spec.shape), spec.dtype) for spec in call.outputs)
    return replace(call, outputs=batched).flatten(results, "the batching rule")


def _primitive(name: str) -> Primitive:
    primitive = Primitive(name)
    primitive.multiple_results = True
    primitive.def_impl(_evaluate)
    primitive.def_effectful_abstract_eval(_abstract)
    batching.primitive_batchers[primitive] = _batch
    for platform in ("cpu", "cuda", "rocm", "tpu"):
        mlir.register_lowering(primitive, functools.partial(_lower, platform=platform), platform=platform)
    return primitive


operator_p = _primitive("xla_custom_kernel")
partitioned_operator_p = _primitive("partitioned_xla_custom_kernel")
"""Alike, but JAX lowers it for given devices: the partitioner has to know them."""
require_devices(partitioned_operator_p)
