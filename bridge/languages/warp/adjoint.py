"""Differentiates calls of Warp kernels in reverse mode, with the adjoints that Warp generates.

The adjoint of a kernel is a kernel too. It takes the arrays of the forward launch, and an adjoint for each of them. It
reads the adjoints of the arrays that the kernel wrote, and adds to the adjoints of the arrays that the kernel read. The
call passes these adjoints:

- for an input: zeros, which become its gradient;
- for an output: its cotangent, in a buffer of the call, because JAX's arrays do not change. Where the kernel stores,
  the adjoint clears the element, so that values which the kernel overwrote later contribute nothing;
- for an in/out argument: its cotangent, which becomes its gradient. Where the kernel adds to the argument, the
  cotangent stays. Where the kernel stores, it is cleared and replaced by the gradient through the stored value.

The adjoint sees an in/out argument as it was before the forward launch. There is one exception: an argument that the
kernel uses only for maxima or minima is passed as it was after the launch, because the adjoint of ``atomic_max``
compares values with the result to find the one that won.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from bridge.errors import DifferentiationError
from bridge.ffi.kernel_call import bind
from bridge.languages.warp.loops import reads_stale
from bridge.languages.warp.parameters import Role
from bridge.languages.warp.planned import Planned


def with_adjoint(planned: Planned) -> Callable[..., list[jax.Array]]:
    """The call as a function of its arrays that ``jax.grad`` and ``jax.vjp`` can differentiate."""
    function = jax.custom_vjp(planned.forward)

    def forward(*arrays: Any) -> tuple[list[jax.Array], Any]:
        if not planned.options.backward_asked and any(reads_stale(code.source) for code in planned.codes):
            raise DifferentiationError(
                f"{planned.kernel.key} has a loop of run-time length, and the adjoint that Warp generates may read "
                "variables after the loop has changed them: the gradient would be wrong. Let the loop only add up, or "
                "call it in a warp.func that returns the sum; or pass enable_backward=True if you checked the gradient."
            )
        results = planned.forward(*arrays)
        return results, (arrays, results)

    def backward(residuals: Any, cotangents: Sequence[Any]) -> tuple[Any, ...]:
        arrays, results = residuals
        return _gradients(planned, arrays, results, cotangents)

    function.defvjp(forward, backward)
    return function


def _gradients(
    planned: Planned, arrays: Sequence[Any], results: Sequence[Any], cotangents: Sequence[Any]
) -> tuple[Any, ...]:
    """The gradient of each input array; None for integers and booleans."""
    inputs, outputs = planned.inputs, planned.outputs
    # The inputs of the call: the arrays, the outputs, and the adjoints, each of which shares its buffer with a result.
    pure = [(p, result) for p, result in zip(outputs, results, strict=True) if p.role is Role.OUTPUT]
    adjoints = [(p, cotangent) for p, cotangent in zip(outputs, cotangents, strict=True) if p.is_float]
    adjoints += [
        (p, jnp.zeros_like(array))
        for p, array in zip(inputs, arrays, strict=True)
        if p.role is Role.INPUT and p.is_float
    ]
    extremes = {p.name: r for p, r in zip(outputs, results, strict=True) if p.name in planned.extremes}
    passed = [*((p, extremes.get(p.name, array)) for p, array in zip(inputs, arrays, strict=True)), *pure]
    first_result = len(passed) + len(adjoints)
    adjoint_buffers = {p.name: first_result + index for index, (p, _) in enumerate(adjoints)}
    call = planned.call(
        inputs=[p for p, _ in (*passed, *adjoints)],
        outputs=[p for p, _ in adjoints],
        buffers={p.name: index for index, (p, _) in enumerate(passed)},
        aliases=[(len(passed) + index, index) for index in range(len(adjoints))],
        adjoints=adjoint_buffers,
    )
    gradients = bind(call, *(array for _, array in (*passed, *adjoints)))[: len(adjoints)]
    by_name = {p.name: gradient for (p, _), gradient in zip(adjoints, gradients, strict=True)}
    for p, array in zip(inputs, arrays, strict=True):
        if p.name in extremes and p.is_float:  # an initial value that was exceeded contributes nothing
            by_name[p.name] = jnp.where(array == extremes[p.name], by_name[p.name], 0)
    return tuple(
        _sharded_like(array, by_name[p.name]) if p.is_float else None for p, array in zip(inputs, arrays, strict=True)
    )


def _sharded_like(array: Any, gradient: jax.Array) -> jax.Array:
    """The gradient in the sharding of its array, which is part of the type on a mesh with explicit axes."""
    wanted = jax.typeof(array).sharding
    if jax.typeof(gradient).sharding == wanted or wanted.mesh.empty:
        return gradient
    resharded: jax.Array = jax.sharding.reshard(gradient, wanted)
    return resharded
