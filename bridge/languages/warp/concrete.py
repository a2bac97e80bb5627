"""Completes the types of a Warp kernel's parameters with the types of the arrays of a call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import warp as wp

from bridge.errors import SignatureError
from bridge.languages.warp.dtypes import NAMES
from bridge.languages.warp.parameters import Parameter, Role


def concrete(kernel: wp.Kernel, parameters: Sequence[Parameter], arrays: Sequence[Any]) -> tuple[Parameter, ...]:
    """The parameters of a call. The parameters of a generic kernel take their types from the arrays.

    Outputs and values take the dtype of the first array whose type the kernel leaves open.

    Args:
        kernel: The kernel.
        parameters: Its parameters.
        arrays: Types (shape and dtype) of the arrays passed, one for each array that is not an output.

    Raises:
        SignatureError: An array has a dtype or shape that the parameter does not take.
    """
    given = iter(arrays)
    result: list[Parameter] = []
    open_type: Parameter | None = None
    for parameter in parameters:
        if parameter.role is not Role.OUTPUT and parameter.is_array:
            array = next(given)
            if parameter.dtype is None:
                parameter = _typed(kernel, parameter, array)
                open_type = open_type or parameter
            _check(kernel, parameter, array)
        elif parameter.dtype is None:
            if open_type is None:
                raise SignatureError(
                    f"{kernel.key}: the type of {parameter.name!r} is open and no array before it determines it. "
                    "Annotate it, or instantiate the kernel with warp.overload."
                )
            inner = open_type.inner if parameter.is_array else ()
            parameter = replace(parameter, dtype=open_type.dtype, inner=inner)
        result.append(parameter)
    return tuple(result)


def _typed(kernel: wp.Kernel, parameter: Parameter, array: Any) -> Parameter:
    assert parameter.ndim is not None
    inner_rank, inner = len(array.shape) - parameter.ndim, tuple(array.shape[parameter.ndim :])
    if array.dtype.name not in NAMES.values() or not 0 <= inner_rank <= 2 or 0 in inner:
        raise SignatureError(
            f"{kernel.key}: {array.dtype}{list(array.shape)} was passed for {parameter}, expected an array of a dtype "
            f"that Warp has, of rank {parameter.ndim}, or of a rank one or two higher for vectors or matrices."
        )
    return replace(parameter, dtype=array.dtype.name, inner=inner)


def _check(kernel: wp.Kernel, parameter: Parameter, array: Any) -> None:
    inner = parameter.inner or ()
    assert parameter.ndim is not None
    fits = len(array.shape) == parameter.ndim + len(inner) and tuple(array.shape[parameter.ndim :]) == inner
    if array.dtype.name != parameter.dtype or not fits:
        raise SignatureError(
            f"{kernel.key}: {array.dtype}{list(array.shape)} was passed for {parameter}. Convert or reshape it first"
            + ("; with x64 disabled JAX has no 64-bit types." if str(parameter.dtype).endswith("64") else ".")
        )
