"""A kernel language in one file: C functions, compiled with the system's compiler and called by XLA.

It proves that a new language needs no change anywhere else. Read it to see what a language consists of.
"""

from __future__ import annotations

import ctypes
import inspect
import math
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bridge import KernelCompileError
from bridge.kernel import (
    DEFINITIONS,
    Compiled,
    Definition,
    HostPlan,
    Language,
    NativeLanguage,
    NoOptions,
    Signature,
    Standing,
    wrap,
)

COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")

_DTYPES = {"float": "float32", "double": "float64", "int32_t": "int32", "int64_t": "int64"}


def c_kernel(
    source: str,
    name: str,
    outs: Any,
    vmap_method: str | None = None,
    input_output_aliases: Mapping[int, int] | None = None,
) -> Callable[..., Any]:
    """Makes a C function callable from JAX.

    Args:
        source: The source of ``void name(int64_t size, const float* input, ..., float* output, ...)``. ``size`` is the
            number of elements of the first output; all arrays have as many.
        name: The function.
        outs: Shape and dtype of the results, as for :func:`bridge.numba_kernel`.
        vmap_method: As for :func:`bridge.numba_kernel`.
        input_output_aliases: As for :func:`bridge.numba_kernel`.

    Raises:
        KernelCompileError: The source has no such function; or, when called: the compiler refuses it, or an array has
            another dtype than its parameter.
    """
    definition = DEFINITIONS.define(LANGUAGE, (name, source), lambda: CFunction.of(source, name))
    return wrap(LANGUAGE, definition, NoOptions(), outs, vmap_method, input_output_aliases)


@dataclass(frozen=True, eq=False)
class CFunction(Definition):
    """One function of a C source.

    Attributes:
        source: The source.
        dtypes: The dtype of each of its arrays.
    """

    source: str = field(repr=False)
    dtypes: tuple[str, ...]

    @classmethod
    def of(cls, source: str, name: str) -> CFunction:
        found = re.search(rf"void\s+{name}\s*\(\s*int64_t\s+\w+\s*,([^)]*)\)", source)
        if found is None:
            raise KernelCompileError(f"{name}: the source has no function void {name}(int64_t size, ...).")
        arrays = re.findall(r"(\w+)\s*\*\s*(\w+)", found[1])
        parameters = [inspect.Parameter(each, inspect.Parameter.POSITIONAL_OR_KEYWORD) for _, each in arrays]

        def function(*arrays: Any) -> None:
            """A kernel in C."""

        function.__signature__ = inspect.Signature(parameters)
        return cls(name, function, None, source, tuple(_DTYPES[kind] for kind, _ in arrays))


class _C(NativeLanguage[CFunction, NoOptions]):
    def check(self, definition: CFunction, options: NoOptions, signature: Signature) -> None:
        super().check(definition, options, signature)
        given = tuple(array.dtype for array in signature.arrays)
        if given != definition.dtypes:
            raise KernelCompileError(
                f"{definition.name} takes {', '.join(definition.dtypes)}, but was called with {', '.join(given)}. "
                "Convert the arguments."
            )
        sizes = {math.prod(array.extents) for array in signature.arrays}
        if len(sizes) > 1:
            raise KernelCompileError(
                f"{definition.name} takes arrays of one size, but was called with arrays of {sorted(sizes)} elements. "
                "Reshape the arguments, or change outs."
            )

    def compile(self, definition: CFunction, options: NoOptions, signature: Signature, platform: str) -> Compiled:
        program = _program(definition, math.prod(signature.outputs[0].extents))
        library = _compiled(definition.name, program)

        return Compiled(program, lambda: HostPlan(library.bridge_entry, alive=library))


LANGUAGE = _C(
    Language("c", {"cpu": Standing.REGULAR}, "c_kernel"),
    compiler="C",
    options_type=NoOptions,
    dtypes=tuple(_DTYPES.values()),
)


def _program(definition: CFunction, size: int) -> str:
    """The function, with the entry that a :class:`bridge.kernel.HostPlan` calls."""
    arrays = ", ".join(f"data[{index}]" for index in range(len(definition.dtypes)))
    return f"""#include <stdint.h>
#include <math.h>
#line 1 "{definition.name}.c"
{definition.source}
int64_t bridge_entry(void* frame, void** buffers, void** data, int64_t batch_rank, void* context) {{
    {definition.name}({size}, {arrays});
    return 0;
}}
"""


def _compiled(name: str, program: str) -> ctypes.CDLL:
    if COMPILER is None:
        raise KernelCompileError(f"{name}: this machine has no C compiler.")
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "kernel.c", Path(folder) / "kernel.so"
        source.write_text(program)
        command = [COMPILER, "-O2", "-shared", "-fPIC", "-o", str(library), str(source), "-lm"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise KernelCompileError(f"{COMPILER} cannot compile {name}:\n{done.stderr}")
        return ctypes.CDLL(str(library))
