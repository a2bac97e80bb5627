"""Makes kernels in CUDA C++, for the backend ``cuda_raw``, with :func:`elementwise` for kernels that move vectors."""

from __future__ import annotations

import importlib.util
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bridge import cuda_raw_kernel
from suites.kernels.cuda_raw_blocks import elementwise_launch, elementwise_source
from suites.kernels.kernel import DeclaredDtypes, Kernel, Same
from suites.kernels.wrapped import arguments_of, launch_of, outs_function

NO_CUDA_CORE = (
    None
    if importlib.util.find_spec("cuda") and importlib.util.find_spec("cuda.core")
    else "cuda-core is not installed (extra cuda12 or cuda13)"
)
"""Why there is no compiler of CUDA C++; None if there is one."""

TYPES = {
    "float32": "float", "float64": "double", "int32": "int", "int64": "long long", "float16": "float16",
    "bfloat16": "bfloat16",
}  # fmt: skip
"""C++ types by dtype, in :mod:`suites.kernels.cuda_raw_blocks`."""


@dataclass(frozen=True)
class RawKernel(Kernel):
    """A kernel in CUDA C++.

    Attributes:
        source: The text; its ``__global__`` function may be a template of the element type.
        name: Takes the name of a dtype and returns the name of the function, or of its instance for that dtype.
        launch: Takes the inputs and outputs of a call. Returns the launch arguments of :func:`bridge.cuda_raw_kernel`:
            besides the launch also ``scalars``, ``options``, ``shared_mem``, ``input_output_aliases``, ``vmap_method``.
        outs: A function of the inputs that returns shape and dtype of the results. By default the operator's outputs.
    """

    source: str
    name: Callable[[str], str]
    launch: Callable[[Sequence[Any], Sequence[Any]], dict[str, Any]]
    outs: Callable[..., Any] | None = None

    def build(self, inputs: Sequence[Any], outs: Sequence[Any]) -> Callable[..., Any]:
        """The callable of :func:`bridge.cuda_raw_kernel`."""
        name = self.name(str(inputs[0].dtype))
        return cuda_raw_kernel(self.source, name, self.outs or outs, **self.launch(inputs, outs))

    @property
    def returns_list(self) -> bool:
        """It does for the operator's outputs, which are a list."""
        return self.outs is None

    @property
    def adds_atomically(self) -> bool:
        """Whether the source has atomic operations."""
        return "atomic" in self.source

    def aliases(self, inputs: Sequence[Any], outs: Sequence[Any]) -> Mapping[int, int]:
        """Those among the launch arguments."""
        return self.launch(inputs, outs).get("input_output_aliases") or {}

    def declared_dtypes(self) -> DeclaredDtypes | None:
        """The dtypes of its pointers, if it is declared as plain source text."""
        return [self.launch.arrays] if isinstance(self.launch, _Parameters) else None


def elementwise(
    statement: str, inputs: Sequence[str], outputs: Sequence[str] = ("T* out",), constants: str = ""
) -> RawKernel:
    """A kernel that runs a statement for each element ``i``.

    Args:
        statement: C++ that reads ``x[i]`` and writes ``out[i]``; ``T`` is the element type, and ``i`` is only an index.
        inputs: Names of the inputs, all of type ``const T*``. Those that the statement indexes with ``i`` are as long
            as the outputs.
        outputs: Types and names of the outputs.
        constants: Statements before the loop over elements.
    """
    source = elementwise_source(statement, inputs, outputs, constants)

    def launch(inputs: Sequence[Any], outs: Sequence[Any]) -> dict[str, Any]:
        size = math.prod(outs[0].shape)
        widest = max(np.dtype(array.dtype).itemsize for array in (inputs[0], *outs))
        return {**elementwise_launch(size, widest), "scalars": (np.int64(size),)}

    return RawKernel(source, _instance, launch)


def _instance(dtype: str) -> str:
    return f"kernel<{TYPES[dtype]}>"


def accept(declared: Any) -> Kernel | None:
    """Returns CUDA C++, or a wrapper of it, as a kernel."""
    if isinstance(declared, RawKernel):
        return declared if isinstance(declared.source, str) and callable(declared.name) else None
    wrapped = arguments_of(declared, cuda_raw_kernel)
    if wrapped is not None:
        how = launch_of("cuda_raw_kernel", wrapped, "RawKernel(source, name, launch)")
        return RawKernel(wrapped["source"], Same(wrapped["name"]), how, outs_function(wrapped["outs"]))
    if not isinstance(declared, str):
        return None
    functions = _GLOBAL.findall(_COMMENT.sub(" ", declared))
    if len(functions) != 1 or functions[0][0]:
        return None
    (_, name, parameters) = functions[0]
    launch = _parsed(parameters)
    return None if launch is None else RawKernel(declared, Same(name), launch)


_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_GLOBAL = re.compile(
    r"(template\s*<[^;{}]*>\s*)?__global__\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?void\s+"
    r"(?:__launch_bounds__\s*\([^)]*\)\s*)?(\w+)\s*\(([^()]*)\)"
)
_POINTERS = {
    "float": "float32", "double": "float64", "bool": "bool", "int": "int32", "int32_t": "int32", "long long": "int64",
    "int64_t": "int64", "unsigned": "uint32", "unsigned int": "uint32", "uint32_t": "uint32", "uint64_t": "uint64",
    "unsigned long long": "uint64", "short": "int16", "int16_t": "int16", "unsigned char": "uint8", "uint8_t": "uint8",
    "int8_t": "int8",
}  # fmt: skip
_COUNTS: dict[str, Any] = {
    "int": np.int32, "int32_t": np.int32, "unsigned": np.uint32, "unsigned int": np.uint32, "uint32_t": np.uint32,
    "long long": np.int64, "int64_t": np.int64, "long": np.int64, "unsigned long long": np.uint64,
    "uint64_t": np.uint64, "size_t": np.uint64,
}  # fmt: skip


@dataclass(frozen=True)
class _Parameters:
    """Makes the launch of a kernel from its parameters: a thread for each element of the first output.

    Attributes:
        arrays: The dtypes of its pointers, None where a type has no dtype.
        size: The type of its last parameter, which takes the number of threads; None if it has only pointers.
    """

    arrays: tuple[str | None, ...]
    size: Any

    def __call__(self, inputs: Sequence[Any], outs: Sequence[Any]) -> dict[str, Any]:
        elements = math.prod(outs[0].shape)
        return {"launch_dims": elements, "scalars": () if self.size is None else (self.size(elements),)}


def _parsed(parameters: str) -> _Parameters | None:
    """Reads the text of the parameters; None unless they are pointers, with at most one size after them."""
    types = [re.sub(r"\b(const|__restrict__|restrict)\b|\w+\s*$", " ", each) for each in parameters.split(",")]
    names = [" ".join(each.replace("*", " ").split()) for each in types]
    arrays = ["*" in each for each in types]
    if arrays and all(arrays):
        return _Parameters(tuple(map(_POINTERS.get, names)), None)
    if arrays and all(arrays[:-1]) and names[-1] in _COUNTS:
        return _Parameters(tuple(map(_POINTERS.get, names[:-1])), _COUNTS[names[-1]])
    return None


def missing() -> str | None:
    """Why nothing here compiles CUDA C++; None if something does."""
    return NO_CUDA_CORE
