"""Compares a changed kernel with the right one: by the code of the compiler, and by the bits of their results."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from bridge.source.llvm_code import Find, LlvmDefinition, portable_code
from suites.backends.backend import Backend
from suites.backends.numba_cpu import NumbaKernel
from suites.cells.case import edges_of
from suites.declare.operator import Operator
from suites.numerics.arrays import Array, Inputs
from suites.numerics.precision import precision

COMPARED_SIZES = (
    *range(1, 18), 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 511, 512, 513, 1000, 1023, 1024, 1025, 2100,
    4096, 4097, 8191, 16385, 32767, 32768, 32769, 44_444, 65_537, 77_777, 100_003, 150_001,
)  # fmt: skip
"""Nominal sizes at which results are compared: small ones, some around powers of two, some that fill all threads."""

SPECIAL_SIZES = (7, 33, 257, 4097, 65_537, 100_003)
"""Nominal sizes of the samples that also come with special values."""

_SPECIAL = (np.nan, -np.nan, np.inf, -np.inf, -0.0, 1e-40, 30.0)
_LARGE = 30_000
_MOST_ELEMENTS = 1 << 21
_IDENTITY = re.compile(r"identity\\22:\\22([^\\]+)")
"""Finds the identities of kernels in a lowered program, which holds their descriptions as escaped JSON."""

_SIZE = 33


@dataclass(frozen=True)
class Code:
    """Identifies the code that the compiler made of the kernels of one call.

    Attributes:
        lowered: What the bridge identifies the kernels by; empty if it has no kernels.
        optimised: Digest of the optimised code, which tells fewer kernels apart; empty if the compiler keeps none.
    """

    lowered: tuple[str, ...]
    optimised: str

    def equals(self, other: Code) -> bool:
        """Whether both are the same machine code."""
        return bool(self.lowered) and (
            self.lowered == other.lowered or (bool(self.optimised) and self.optimised == other.optimised)
        )


def code_of(operator: Operator, backend: Backend, platform: str, dtype: str) -> Code:
    """Returns the code of a kernel for a small sample in one dtype.

    Raises:
        Exception: Whatever the compiler, or the kernel itself, says about these inputs.
    """
    inputs = operator.sample(dtype, _SIZE, 0)
    with precision(*(array.dtype for array in inputs)), jax.default_device(jax.devices(platform)[0]):
        lowered = jax.jit(operator.build(backend, inputs)).lower(*inputs)
    kernel = operator.kernel(backend)
    optimised = _optimised(kernel.dispatcher) if isinstance(kernel, NumbaKernel) else ""
    return Code(tuple(_IDENTITY.findall(lowered.as_text())), optimised)


def runnable(operator: Operator, backend: Backend, platform: str) -> list[str]:
    """Returns the dtypes in which a kernel runs on a platform."""
    return [dtype for dtype in operator.dtypes if operator.unsupported(backend, platform, dtype) is None]


def same_results(
    right: Operator, changed: Operator, backend: Backend, platform: str, most_s: float = 30.0
) -> int | str:
    """Compares the bits of the results of two kernels on many inputs.

    They are samples of many sizes, some of them with special values in drawn places, and all edge cases.

    Args:
        right: The operator with the right kernel.
        changed: The operator with the other one.
        backend: The backend of both kernels.
        platform: ``cpu`` or ``cuda``.
        most_s: Seconds of processor time after which it takes no further inputs.

    Returns:
        The number of inputs if all results have the same bits; else the inputs that give other ones, in words.
    """
    if not right.deterministic(backend, platform):
        return "the bits of its results vary from call to call"
    compared = 0
    started = time.process_time()
    for dtype in runnable(right, backend, platform):
        calls: dict[Any, list[Any]] = {}
        for name, inputs in _inputs(right, dtype):
            if time.process_time() - started > most_s and compared:
                return compared
            key = tuple((array.shape, array.dtype) for array in inputs)
            if key not in calls:
                calls[key] = [jax.jit(operator.build(backend, inputs)) for operator in (right, changed)]
            bits = [_bits(call, inputs, platform) for call in calls[key]]
            if bits[0] != bits[1]:
                return f"other bits for {name} in {dtype}"
            compared += 1
    return compared


def _inputs(operator: Operator, dtype: str) -> Iterator[tuple[str, Inputs]]:
    """Yields the inputs of a comparison, large ones first: they reach the paths that small ones leave out."""
    random = np.random.default_rng(1)
    for name, inputs in edges_of(operator, dtype).items():
        yield name, inputs
    for size in sorted(COMPARED_SIZES, key=lambda size: (size < _LARGE, size)):
        inputs = operator.sample(dtype, size, size)
        arrays: list[Any] = [*inputs, *operator.outputs(*inputs)]
        if sum(array.size for array in arrays) > _MOST_ELEMENTS:
            continue
        yield f"a sample of {size}", inputs
        if size in SPECIAL_SIZES:
            for value in _SPECIAL:
                yield f"a sample of {size} with some {value}", _with_some(inputs, value, random)


def _with_some(inputs: Inputs, value: float, random: np.random.Generator) -> Inputs:
    """Returns inputs whose long arrays of floats have a value in three places."""
    changed: list[Array] = []
    for given in inputs:
        array: Array = given.copy()
        if array.dtype.kind == "f" and array.size > 1:
            array.flat[random.integers(0, array.size, 3)] = value
        changed.append(array)
    return tuple(changed)


def _bits(call: Any, inputs: Inputs, platform: str) -> list[bytes]:
    with precision(*(array.dtype for array in inputs)), jax.default_device(jax.devices(platform)[0]):
        return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(call(*map(jax.device_put, inputs)))]


def _optimised(dispatcher: Any) -> str:
    """Returns a digest of the optimised code of a Numba kernel, for all types that it is compiled for.

    The bridge identifies a kernel by its code before that, which tells more kernels apart.
    """
    found = hashlib.sha256()
    for types, compiled in sorted(dispatcher.overloads.items(), key=str):
        text = compiled.library.get_llvm_str()
        code = portable_code([text], compiled.fndesc.llvm_func_name, _without_generated_names)
        found.update(f"{types} {code}".encode())
    return found.hexdigest() if dispatcher.overloads else ""


def _without_generated_names(definition: LlvmDefinition, find: Find) -> str | None:
    """Returns other text for what holds the generated name of a function, which no other function has."""
    name = definition.name.strip('@"')
    return "environment" if name.startswith(("_ZN08NumbaEnv", ".const.missing Environment")) else None
