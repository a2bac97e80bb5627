"""Says why a compiler of Numba refuses a kernel, and what to write instead."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from bridge.errors import KernelCompileError
from bridge.kernel.language import Definition
from bridge.kernel.references import array_hint


def refused(definition: Definition, types: Sequence[Any], error: Exception) -> KernelCompileError:
    """The error for a kernel that Numba refuses for these types."""
    said = _COLOURS.sub("", str(error))
    head = f"Numba cannot compile {definition.name} ({definition.place}) for ({', '.join(map(str, types))}):"
    operation = any(each.ndim == 0 for each in types) and _ON_SCALAR.search(said)
    if operation and "Tuple()" not in operation[1]:  # with an index of no dimension something else is wrong
        line = next((f" line {each}" for each in _LINE.findall(said)), "")
        return KernelCompileError(
            f"{head}{line} has {operation[1]}. A scalar is an array of 0 dimensions in a kernel: read its value as "
            "n[()], and write it as out[()] = value."
        )
    hint = next((f"\n{hint}" for text, hint in _HINTS.items() if text in said), "")
    assert definition.source_function is not None
    return KernelCompileError(f"{head}\n{said}{hint}{array_hint(definition.source_function)}")


# On GPUs Numba has no arithmetic of arrays, and its error is the name of a ufunc of NumPy.
_ON_SCALAR = re.compile(r"^ *(?:>>> )?(\w+\(.*\b0d, .*\)|iteration over a 0-d array|<ufunc '\w+'>)", re.MULTILINE)
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")  # Numba sets them where colorama is installed
_LINE = re.compile(r"^File .*, line (\d+):$", re.MULTILINE)
_HINTS = {
    "Cannot modify readonly": "Inputs are read-only, because JAX arrays are immutable: write to an output, or alias "
    "the input to one with input_output_aliases.",
    "(IMPORT_NAME)": "Import modules outside of the kernel.",
    "Array.reshape": "Give the array its shape before the call, or compute the index.",  # of numba-cuda-mlir
    "float16' of type Module(<module 'jax.numpy'": "A kernel cannot use jax.numpy. Write x.dtype.type(value) for a "
    "number of the dtype of an array x.",
}
"""Advice by a part of Numba's error."""
