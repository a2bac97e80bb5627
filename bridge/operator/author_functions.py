"""Calls the generators and rules of an operator's author, and checks that they fit the call."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bridge.debug.checking import check_nan, check_reference, not_exported
from bridge.debug.findings import Findings
from bridge.debug.mode import OFF, Mode, current_mode, using
from bridge.errors import BackendError, ParameterError, SignatureError
from bridge.operator.operator_call import Candidate, Function, OperatorCall, Rule


def check_fits(function: Callable[..., Any], args: Sequence[Any], keywords: Mapping[str, Any], who: str) -> None:
    """Checks the arguments of a function before it is called. So its own errors are never explained wrongly.

    Raises:
        ParameterError: The function does not take one of the arguments, or lacks one.
    """
    try:
        signature = inspect.signature(function)
    except ValueError:  # a function in C has no signature
        return
    try:
        signature.bind(*args, **keywords)
    except TypeError as error:
        raise ParameterError(
            f"{who} takes {signature}: {error}. Make the call and these parameters agree; pass parameters by name."
        ) from None


def generated_kernel(call: OperatorCall, candidate: Candidate) -> Callable[..., Any]:
    """The function of the input arrays that the generator of a candidate returns for a call.

    Raises:
        ParameterError: The call has parameters that the generator does not take, lacks some, or passes one that the
            configuration sets.
        SignatureError: The generator does not return a function.
    """
    options = dict(candidate.options.items)
    if twice := sorted(call.keywords.keys() & options.keys()):
        raise ParameterError(
            f"{call.name}: the call passes {', '.join(twice)}, but so does the configuration of "
            f"{candidate.reference}. Leave it out of the call, or name another configuration with backend=."
        )
    keywords = {**call.keywords, **options}
    check_fits(
        candidate.generator, (), keywords, f"operator {call.name!r}: the generator of backend {candidate.reference!r}"
    )
    try:
        kernel = candidate.generator(**keywords)
    except Exception as error:
        error.add_note(f"(raised by the {candidate.reference} generator of the operator {call.name})")
        raise
    if not callable(kernel) or hasattr(kernel, "py_func") or hasattr(kernel, "adj"):  # a kernel of Numba or Warp
        raise SignatureError(
            f"{call.name}: the {candidate.backend} generator returned {kernel!r}, expected a function of the arrays. "
            "Wrap a kernel, as in numba_kernel(kernel, outs[0]) or jax_kernel(kernel)."
        )
    return kernel


def run_rule(call: OperatorCall, who: str, rule: Rule, *args: Any) -> Any:
    """The result of a rule, which errors call ``who``, for these arguments and the keywords of the call.

    Raises:
        ParameterError: The call has parameters that the rule does not take, or lacks some.
    """
    check_fits(rule, args, call.keywords, f"operator {call.name!r}: {who}")
    try:
        return rule(*args, **call.keywords)
    except Exception as error:
        given = ", ".join(str(getattr(arg, "aval", arg)) for arg in args)
        error.add_note(f"(raised by {who} of the operator {call.name}, which got {given})")
        raise


def flat_results(call: OperatorCall, results: Any, who: str) -> list[Any]:
    """Flattens the results of a kernel or rule: one array, or a tuple, list or other pytree of arrays.

    Raises:
        SignatureError: Their shapes and dtypes are not the ones that the call declares.
    """
    arrays = jax.tree.leaves(results)
    got = [f"{jax.dtypes.result_type(array)}{list(np.shape(array))}" for array in arrays]
    expected = [f"{spec.dtype}{list(spec.shape)}" for spec in call.outputs]
    if got != expected:
        raise SignatureError(
            f"{call.name}: {who} returned {', '.join(got) or 'nothing'}, but outs declares {', '.join(expected)}. Make "
            "outs of the call and these results agree."
        )
    return arrays


def selected_kernel(call: OperatorCall, platform: str, exported: bool) -> Function:
    """The kernel that the call has chosen for a platform, as a function of its (batched) arrays.

    In a debug mode, it checks the results; each kernel call in it checks itself.

    Raises:
        BackendError: The call has no kernel for the platform.
        DebugError: A call with checks is being exported; an exported program can hold none.
        ParameterError: The generator does not take the parameters of the call.
        SignatureError: The generator does not return a function.
    """
    selected = next((each for each in call.choice if each.platform == platform), None)
    if selected is None:
        available = ", ".join(f"{each.platform}: {each.reference}" for each in call.choice)
        raise BackendError(
            f"{call.name}: no kernel for platform {platform!r} (this call can run on {available}). Register one with "
            f"def_kernel(backend, {platform!r}, generator), or put the inputs on another device."
        )
    who = f"{call.name}, backend {selected.reference}"
    kernel = _kernel_of(call, selected, call.mode.inside(who))
    if (note := call.note) is not None:
        return _noted(kernel, functools.partial(note, call, platform))
    if not call.mode:
        return kernel
    if exported:
        raise not_exported(call.name)
    others = (each for each in call.references if each.platform == platform and each != selected)
    reference = next((_kernel_of(call, each, OFF) for each in others), None)

    def checked(*args: Any) -> list[Any]:
        findings = Findings.of(who, platform, args)
        results = list(map(jnp.asarray, kernel(*args)))
        if reference is not None:
            check_reference(findings, args, results, reference(*args), call.mode)
        if call.mode.nan:
            check_nan(findings, args, results)
        return findings.reported(results)

    return checked


def _noted(kernel: Function, note: Callable[..., None]) -> Function:
    def run(*args: Any) -> list[Any]:
        jax.debug.callback(note, *args)
        return kernel(*args)

    return run


def _kernel_of(call: OperatorCall, candidate: Candidate, mode: Mode) -> Function:
    # The kernels in it are traced in the mode of the call, wherever the call is lowered.
    def context() -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext() if current_mode() == mode else using(mode)

    with context():
        kernel = generated_kernel(call, candidate)

    def run(*args: Any) -> list[Any]:
        with context():
            return flat_results(call, kernel(*args), f"the {candidate.backend} kernel")

    batched: Function = run
    for extent, axes in call.batches:
        batched = jax.vmap(batched, in_axes=axes, axis_size=extent)
    return batched
