"""Declares an operator from a :class:`bridge.XLACustomKernel`: each of its backends is a column of the tables."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

import jax

from bridge import XLACustomKernel
from suites.backends import BACKENDS, Backend
from suites.backends.custom_kernel import CustomKernel, column
from suites.declare.operator import Operator
from suites.errors import OperatorError
from suites.numerics.arrays import specs

REFERENCE = "jnp"
"""The backend of an operator that is the reference, unless its author passes another one."""


def operator_of(
    custom: XLACustomKernel,
    parameters: Mapping[str, Any] | None = None,
    *,
    name: str | None = None,
    reference: Callable[..., Any] | None = None,
    outs: Callable[..., Any] | None = None,
    **fields: Any,
) -> Operator:
    """Declares the operator that checks a :class:`bridge.XLACustomKernel` with all of its backends and rules.

    Each registered backend, and each further configuration of it, becomes a backend of the operator. The kernel
    registered with ``def_jnp_kernel`` is the reference. It is called without the rules, so that a wrong rule for
    derivatives does not change the truth. Kernels are called through the operator: ``jax.vmap``, derivatives and meshes
    use its rules::

        OPERATOR = suites.operator_of(clip_op, {"limit": 0.5})

    Args:
        custom: The operator.
        parameters: The static parameters of each call. Declare an operator for each set of parameters to check.
        name: The name in ids and records; by default the operator's, with ``_`` for characters that ids do not have.
        reference: The reference, if there is no ``jnp`` kernel.
        outs: The ``outs`` of the operator, if it has none.
        **fields: Other fields of :class:`suites.Operator`, such as ``sample`` and ``dtypes``. Without ``sample``, the
            inputs are the arguments of ``outs`` that are no parameters.

    Raises:
        OperatorError: There is no reference, no other backend, or no function that returns ``outs``.
    """
    if not isinstance(custom, XLACustomKernel):
        raise OperatorError(
            f"operator_of got a {type(custom).__name__}, expected a bridge.XLACustomKernel. Declare other kernels with "
            "suites.Operator(name=..., reference=..., kernels={...})."
        )
    own = name or re.sub(r"[^A-Za-z0-9_.~]", "_", custom.name).strip("_") or "my_operator"
    static = dict(parameters or {})
    declared = _outs_of(own, custom, static, outs)
    kernels = _kernels(own, custom, static)
    if reference is None:
        reference = _reference(own, custom, static, declared)
    return Operator(name=own, reference=reference, kernels=kernels, outputs=declared, **fields)


def _outs_of(
    where: str, custom: XLACustomKernel, parameters: Mapping[str, Any], outs: Callable[..., Any] | None
) -> Callable[..., Any]:
    """Returns the shapes and dtypes of the results as a function of the arrays alone."""
    function = custom.outs if outs is None else outs
    if function is None:
        raise OperatorError(
            f"{where}: the operator has no function outs, so each call passes the shapes and dtypes of its results. "
            "Pass outs=, a function of the arrays and parameters, such as lambda x, **_: "
            "jax.ShapeDtypeStruct(x.shape, x.dtype)."
        )

    def declared(*arrays: Any) -> Any:
        return function(*arrays, **parameters)

    return _with_arrays_of(declared, function, parameters)


def _with_arrays_of(
    function: Callable[..., Any], of: Callable[..., Any], parameters: Mapping[str, Any]
) -> Callable[..., Any]:
    """Gives a function of arrays the names of the arrays that another function takes besides parameters."""
    try:
        parameters_of = inspect.signature(of).parameters.values()
    except (TypeError, ValueError):
        return function
    arrays = [each for each in parameters_of if each.name not in parameters and each.kind is not each.VAR_KEYWORD]
    signed: Any = function
    signed.__signature__ = inspect.Signature(
        [each.replace(annotation=each.empty) for each in arrays if each.kind is not each.KEYWORD_ONLY]
    )
    return function


def _kernels(where: str, custom: XLACustomKernel, parameters: Mapping[str, Any]) -> dict[Backend, CustomKernel]:
    """Returns a kernel for each backend and configuration except the reference, by its backend in tables."""
    registered = custom.registered
    platforms: dict[str, list[str]] = {}
    for platform, backends in registered.kernels.items():
        for backend in backends:
            for reference in _references(registered, platform, backend):
                platforms.setdefault(reference, []).append(platform)
    kernels: dict[Backend, CustomKernel] = {}
    for reference, where_it_runs in platforms.items():
        tested = [platform for platform in where_it_runs if platform in ("cpu", "cuda")]
        if tested and reference.partition(":")[0] != REFERENCE:
            for one in _columns(reference, tested):
                kernels[one] = CustomKernel(custom, reference, **parameters)
    if not kernels:
        raise OperatorError(
            f"{where}: the operator has no kernel to check on cpu or cuda (registered: {registered.describe()}). "
            "Register one with a def_..._kernel method, before operator_of is called."
        )
    return kernels


def _references(registered: Any, platform: str, backend: str) -> list[str]:
    """Returns how calls name a backend: by its name for the default configuration, else with a configuration."""
    own = [each.reference for each in registered.candidates if (each.platform, each.backend) == (platform, backend)]
    return [backend, *own[1:]]


def _columns(reference: str, platforms: list[str]) -> list[Backend]:
    """Returns the backends of a kernel in tables: the built-in one of its name, and new ones for other platforms."""
    id_ = re.sub(r"[^a-z0-9_]+", "_", reference.lower()).strip("_")
    id_ = id_ if id_[:1].isalpha() else f"backend_{id_}"
    own = {backend.id: backend for backend in BACKENDS.values()}.get(id_)
    if own is None:
        return [column(id_)]
    missing = [platform for platform in platforms if platform not in own.platforms]
    columns = [own] if len(missing) < len(platforms) else []
    return [*columns, *(column(f"{id_}_{platform}") for platform in missing)]


def _reference(
    where: str, custom: XLACustomKernel, parameters: Mapping[str, Any], outs: Callable[..., Any]
) -> Callable[..., Any]:
    """Returns the kernel of ``def_jnp_kernel`` as a function of arrays, without the rules of the operator."""
    generators = [kernels[REFERENCE] for kernels in custom.registered.kernels.values() if REFERENCE in kernels]
    if not generators:
        raise OperatorError(
            f"{where}: the operator has no jnp kernel to compare with (registered: {custom.registered.describe()}). "
            "Register one with def_jnp_kernel, or pass reference=, a function of the arrays."
        )

    def reference(*arrays: Any) -> Any:
        return generators[0](outs=specs(jax.tree.leaves(outs(*arrays))), **parameters)(*arrays)

    return _with_arrays_of(reference, outs, {})
