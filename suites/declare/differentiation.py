"""Decides which kernels of an operator must have a derivative, and explains why the others have none."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax

from suites.backends import BACKENDS, Backend
from suites.kernels.kernel import Derivative, Kernel
from suites.numerics.arrays import kind_of, specs
from suites.numerics.precision import precision


def why_no_gradient(operator: Any, backend: Backend, dtype: str) -> str | None:
    """Returns why the derivative of a backend's callable is not checked in a dtype; None if it is."""
    gradient = operator.gradient
    if gradient is None:
        return f"no derivative is declared for {operator.name}"
    has_kernel = backend is BACKENDS["jnp"] or backend in operator.kernels
    if not has_kernel or kind_of(dtype) != "f":
        return f"{operator.name} has no {backend.id} kernel of real floats in {dtype}"
    if dtype not in (gradient.dtypes or operator.dtypes):
        return f"its derivative is declared for {', '.join(map(str, gradient.dtypes or ()))} alone"
    if backend is BACKENDS["jnp"]:
        # XLA's own derivative is checked to find errors of the reference, but only if a kernel has a derivative.
        reasons = [_without_rules(operator, each, dtype) for each in operator.kernels]
        reason = reasons[0] if None not in reasons else None
    else:
        reason = _without_rules(operator, backend, dtype)
    return reason or _underivable(operator, dtype)


def why_no_tangents(operator: Any, backend: Backend, dtype: str) -> str | None:
    """Returns why the derivative in forward mode is not checked; None if it is."""
    kernel = operator.kernels.get(backend)
    if operator.gradient is None or kernel is None or kind_of(dtype) != "f":
        return why_no_gradient(operator, backend, dtype) or "the reference has XLA's own derivative"
    own = _derivative(operator, kernel, dtype)
    if own is None or not (own.forward or own.reverse):
        return _no_derivative(backend)
    if not own.forward:
        return f"{backend.id} has a derivative in reverse mode alone (def_jvp or def_transpose gives both)"
    return _underivable(operator, dtype)


def differentiated_inputs(operator: Any, inputs: Sequence[Any]) -> list[int]:
    """Returns the indices of the differentiable inputs; empty if there are none.

    Args:
        operator: The operator.
        inputs: Anything with dtype for each input, also a batch of them.
    """
    gradient = operator.gradient
    if gradient is None:
        return []
    floats = [index for index, array in enumerate(inputs) if kind_of(array.dtype) == "f"]
    indices = [index for index in floats if gradient.inputs is None or index in gradient.inputs]
    for kernel in operator.kernels.values():
        own = _derivative(
            operator, kernel, operator.dtypes[0]
        )  # which inputs are differentiable is equal in all dtypes
        if own is not None and own.inputs:
            indices = [index for index in indices if index in own.inputs]
    return indices


def _without_rules(operator: Any, backend: Backend, dtype: str) -> str | None:
    gradient = operator.gradient
    assert gradient is not None
    own = _derivative(operator, operator.kernels[backend], dtype)
    if own is None and gradient.inputs is not None and backend.has_adjoints:
        return None  # the adjoints of a function around kernels are unknown, so its author's declaration counts
    if own is not None and own.generated and gradient.is_assumed:
        return f"{backend.id} generates a derivative, which is checked if one is declared: gradient=suites.Gradient()"
    return None if own is not None and own.reverse else _no_derivative(backend)


def _no_derivative(backend: Backend) -> str:
    return f"{backend.id} kernels have no derivative of their own (def_vjp gives an operator one)"


def _derivative(operator: Any, kernel: Kernel, dtype: str) -> Derivative | None:
    with jax.ensure_compile_time_eval():  # JAX may trace the caller, while the sample is made by JAX
        inputs = operator.sample(dtype, operator.sizes.check[0], 0)
    try:
        return kernel.derivative(inputs, operator.outputs(*inputs))
    except Exception:  # from the author's launch options; every check that calls the kernel reports it
        return None


@functools.lru_cache(maxsize=256)
def _underivable(operator: Any, dtype: str) -> str | None:
    """Returns why no derivative of the reference can be taken; None if one can."""
    inputs = operator.sample(dtype, operator.sizes.check[0], 0)
    if not differentiated_inputs(operator, inputs):
        return f"{operator.name} has no input of real floats with a derivative"
    if not real_floats(operator.outputs(*inputs)):
        return f"the results of {operator.name} are integers or booleans, which have no derivative"

    def pulled(*arrays: jax.Array) -> Any:
        function, floats = between_floats(operator, arrays)
        outs, vjp = jax.vjp(function, *floats)
        return vjp(outs)

    try:
        with precision(dtype):
            jax.eval_shape(pulled, *specs(inputs))
    except Exception as error:
        message = (str(error).strip() or "without a message").splitlines()[0]
        return f"the reference of {operator.name} has no derivative in reverse mode ({type(error).__name__}: {message})"
    return None


def function_of(call: Any, inputs: Sequence[Any], indices: Sequence[int]) -> tuple[Any, list[Any]]:
    """Returns a callable as a function of the inputs at these indices only, and these inputs."""

    def function(*floats: Any) -> Any:
        arguments = list(inputs)
        for index, each in zip(indices, floats, strict=True):
            arguments[index] = each
        return call(*map(jax.numpy.asarray, arguments))

    return function, [inputs[index] for index in indices]


def between_floats(operator: Any, inputs: Sequence[Any]) -> tuple[Any, list[Any]]:
    """Returns the reference as a function of its differentiable inputs to outputs of real floats, and these inputs."""
    function, floats = function_of(operator.reference, inputs, differentiated_inputs(operator, inputs))
    return lambda *floats_in: real_floats(function(*floats_in)), floats


def real_floats(arrays: Sequence[Any]) -> list[Any]:
    """Returns the arrays of real floats; the others have cotangents and tangents of no type."""
    return [array for array in arrays if kind_of(array.dtype) == "f"]
