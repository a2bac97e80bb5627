"""Makes a function of arrays from the selected kernel of a call, under all surrounding ``vmap``."""

from __future__ import annotations

import contextlib
from typing import Any

import jax
import jax.numpy as jnp

from bridge.debug.checking import check_nan, check_reference, not_exported
from bridge.debug.findings import Findings
from bridge.debug.mode import OFF, Mode, current_mode, using
from bridge.operator.author_functions import flat_results, generated_kernel
from bridge.operator.choice import candidate_for
from bridge.operator.operator_call import Candidate, Function, OperatorCall


def selected_kernel(call: OperatorCall, platform: str, exported: bool) -> Function:
    """The kernel that the call has chosen for a platform, as a function of its (batched) arrays.

    In a debug mode, it checks the results; each kernel call in it checks itself.

    Raises:
        BackendError: The call has no kernel for the platform.
        DebugError: A call with checks is being exported; an exported program can hold none.
        ParameterError: The generator does not take the parameters of the call.
        SignatureError: The generator does not return a function.
    """
    selected = candidate_for(call.choice, platform, call.name)
    who = f"{call.name}, backend {selected.reference}"
    kernel = _kernel_of(call, selected, call.mode.inside(who))
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
