"""Says who is to blame for an exception: the kernel, the memory of the machine, or what judges the kernel."""

from __future__ import annotations

import traceback
from pathlib import Path

import jax

from reports import Status
from suites.declare import input_answers, result_answers
from suites.numerics import arrays

_NUMERICS = Path(arrays.__file__).parent
_ANSWERS = tuple(Path(str(module.__file__)) for module in (input_answers, result_answers))

_MEMORY_SIGNS = ("RESOURCE_EXHAUSTED", "CUDA_ERROR_OUT_OF_MEMORY")
"""Words in an error of XLA that says that memory is missing; it has both where CUDA's driver refuses to load code."""


def status_of(error: BaseException, of_kernel: Status = Status.RUNTIME_ERROR) -> Status:
    """Returns how a cell ends that raised an exception.

    Args:
        error: The exception.
        of_kernel: The status if the kernel is to blame.

    Returns:
        OOM if memory was missing. UNCHECKED if the author's samples, reference or truth raised it, or the judge: that
        says nothing of the kernel. Else ``of_kernel``.
    """
    if isinstance(error, MemoryError) or (
        isinstance(error, jax.errors.JaxRuntimeError) and any(sign in str(error) for sign in _MEMORY_SIGNS)
    ):
        return Status.OOM
    return of_kernel if place_outside_of_kernels(error) is None else Status.UNCHECKED


def place_outside_of_kernels(error: BaseException) -> str | None:
    """File and line of the samples, the reference, the truth or the judge, if one of them was running; else None."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if _NUMERICS in path.parents or path in _ANSWERS:
            return f"{path.name}:{frame.lineno}"
    return None
