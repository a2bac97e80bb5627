"""The JAX primitive behind every operator: it carries the choice of kernels to where the platform is known."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import jax
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from bridge.errors import DifferentiationError, SignatureError
from bridge.ffi.avals import align_varying, result_aval
from bridge.primitive.dispatch import Candidate, Choice, candidate_for


@dataclass(frozen=True)
class OperatorCall:
    """What is static about one call of an operator; hashable, so that it identifies a compiled program.

    Attributes:
        name: The operator.
        choice: The kernel to run on each platform.
        outputs: Shape and dtype of each result, without batch dimensions.
        parameters: Keyword parameters for the generator, sorted by name.
        batches: Extent and input axes of each surrounding ``vmap``, innermost first.
    """

    name: str
    choice: Choice
    outputs: tuple[jax.ShapeDtypeStruct, ...]
    parameters: tuple[tuple[str, Any], ...]
    batches: tuple[tuple[int, tuple[int | None, ...]], ...] = ()

    def __repr__(self) -> str:
        return f"{self.name}[{', '.join(f'{c.platform}: {c.backend}' for c in self.choice)}]"

    def kernel(self, platform: str) -> Callable[..., list[Any]]:
        """The selected kernel as a function of (batched) arrays that returns a flat list of arrays."""
        candidate = candidate_for(self.choice, platform, self.name)
        try:
            kernel = candidate.generator(outs=self.outputs, **dict(self.parameters))
        except Exception as error:
            error.add_note(f"(raised by the {candidate.backend} generator of the operator {self.name})")
            raise
        if not callable(kernel):
            raise SignatureError(
                f"{self.name}: the {candidate.backend} generator returned {kernel!r}, expected a function of the "
                "arrays."
            )

        def run(*args: Any) -> list[Any]:
            return self._flatten(kernel(*args), candidate)

        batched: Callable[..., list[Any]] = run
        for extent, axes in self.batches:
            batched = jax.vmap(batched, in_axes=axes, axis_size=extent)
        return batched

    def _flatten(self, results: Any, candidate: Candidate) -> list[Any]:
        """A kernel may return one array, or a tuple, list or other pytree of them."""
        arrays = jax.tree.leaves(results)
        got = [(np.shape(array), jax.dtypes.result_type(array)) for array in arrays]
        expected = [(spec.shape, spec.dtype) for spec in self.outputs]
        if got != expected:
            raise SignatureError(
                f"{self.name}: the {candidate.backend} kernel returned {_listed(got)}, but outs declares "
                f"{_listed(expected)}. Make outs of the call and the results of the kernel agree."
            )
        return arrays


def _listed(arrays: Sequence[tuple[tuple[int, ...], Any]]) -> str:
    return ", ".join(f"{dtype}{list(shape)}" for shape, dtype in arrays) or "nothing"


def bind(call: OperatorCall, *args: Any) -> list[Any]:
    """Calls the operator on arrays or tracers; a flat list of results."""
    results: list[Any] = operator_p.bind(*align_varying(args), call=call)
    return results


@functools.partial(jax.jit, static_argnums=0, inline=True)
def apply(call: OperatorCall, *args: Any) -> list[Any]:
    """:func:`bind`, compiled once for each call and argument types: also when called outside ``jax.jit``."""
    return bind(call, *args)


operator_p = Primitive("xla_custom_kernel")
operator_p.multiple_results = True


@operator_p.def_impl
def _evaluate(*args: Any, call: OperatorCall) -> list[Any]:
    with jax.disable_jit(False):
        results: list[Any] = apply(call, *args)
    return results


@operator_p.def_abstract_eval
def _abstract(*avals: Any, call: OperatorCall) -> list[Any]:
    extents = tuple(extent for extent, _ in reversed(call.batches))
    return [result_aval(avals, extents + spec.shape, spec.dtype) for spec in call.outputs]


def _lower(ctx: mlir.LoweringRuleContext, *operands: Any, call: OperatorCall, platform: str) -> Any:
    return mlir.lower_fun(call.kernel(platform), multiple_results=True)(ctx, *operands)


for _platform in ("cpu", "cuda", "rocm", "tpu"):
    mlir.register_lowering(operator_p, functools.partial(_lower, platform=_platform), platform=_platform)


def _batch(args: tuple[Any, ...], dims: tuple[int | None, ...], *, call: OperatorCall) -> tuple[list[Any], list[int]]:
    extent = next(arg.shape[dim] for arg, dim in zip(args, dims, strict=True) if dim is not None)
    batched = replace(call, batches=(*call.batches, (extent, tuple(dims))))
    return bind(batched, *args), [0] * len(call.outputs)


batching.primitive_batchers[operator_p] = _batch


def _no_derivative(*args: Any, call: OperatorCall, **_: Any) -> NoReturn:
    raise DifferentiationError(
        f"{call.name} has no derivative: JAX cannot see into its kernels. Wrap the call in jax.custom_vjp (reverse "
        "mode) or jax.custom_jvp (forward mode), or keep it out of the differentiated path with jax.lax.stop_gradient."
    )


ad.primitive_jvps[operator_p] = _no_derivative
ad.primitive_transposes[operator_p] = _no_derivative
