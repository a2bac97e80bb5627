"""Makes a function of arrays from the selected kernel of a call, under all surrounding ``vmap``."""

from __future__ import annotations

from typing import Any

import jax

from bridge.debug.mode import kernel_modes
from bridge.debug.rewriting import unchecked
from bridge.operator.call.author_functions import flat_results, generated_kernel
from bridge.operator.call.operator_call import Function, OperatorCall
from bridge.operator.choice.candidates import Candidate, candidate_for


def kernel_of(call: OperatorCall, candidate: Candidate) -> Function:
    """The kernel of a candidate as a function of the (batched) arrays of a call.

    The kernel calls in it make no checks: an operator in debug mode checks its kernel as a whole.

    Raises:
        ParameterError: The generator does not take the parameters of the call.
        SignatureError: The generator does not return a function.
    """
    kernel = generated_kernel(call, candidate)

    def run(*args: Any) -> list[Any]:
        return flat_results(call, kernel(*args), f"the {candidate.backend} kernel")

    batched: Function = run
    for extent, axes in call.batches:
        batched = jax.vmap(batched, in_axes=axes, axis_size=extent)
    return unchecked(batched) if kernel_modes.current() else batched


def selected_kernel(call: OperatorCall, platform: str) -> Function:
    """The kernel that the call has chosen for a platform, as :func:`kernel_of` makes it.

    Raises:
        BackendError: The call has no kernel for the platform.
    """
    return kernel_of(call, candidate_for(call.choice, platform, call.name))
