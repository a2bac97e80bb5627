"""Compiles Numba-CUDA kernels for the types of a call and loads them on JAX's GPUs.

Only the functions import numba-cuda, because ``import bridge`` must work without it.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp

from bridge.cuda.includes import header_versions, included_by
from bridge.cuda.launch_shape import LaunchShape
from bridge.cuda.machine_code import check_launch
from bridge.errors import BridgeError, KernelCompileError
from bridge.ffi.cuda import driver
from bridge.kernel.arguments import ArrayType
from bridge.kernel.language import Definition
from bridge.kernel.llvm_code import portable_code
from bridge.kernel.refused import refused


@dataclass(frozen=True, eq=False)
class CudaDefinition(Definition):
    """A function that is decorated with ``numba.cuda.jit`` or ``numba_cuda_mlir.cuda.jit``.

    Attributes:
        dispatcher: The dispatcher that the decorator made.
    """

    dispatcher: Any = field(repr=False)

    @classmethod
    def of(cls, dispatcher: Any) -> CudaDefinition:
        function = dispatcher.py_func
        return cls(function.__name__, function, function, dispatcher)


def numba_type(array: ArrayType) -> Any:
    """Numba-CUDA's type of a C-contiguous array."""
    from numba.cuda import types
    from numba.cuda.np.numpy_support import from_dtype

    return types.Array(from_dtype(jnp.dtype(array.dtype)), array.rank, "C", readonly=not array.writable)


def compile_kernel(definition: CudaDefinition, arrays: Sequence[ArrayType]) -> Any:
    """Numba's compiled kernel for these argument types, for the current device.

    Raises:
        KernelCompileError: Numba refuses the kernel for these types.
    """
    from numba.cuda import types

    from bridge.compat import numba_cuda as compat

    array_types = tuple(numba_type(array) for array in arrays)
    try:
        dispatcher = definition.dispatcher
        compat.check_layout()
        if not compat.takes_new_types(dispatcher):
            check_declared(definition, array_types)
            dispatcher = type(dispatcher)(dispatcher.py_func, targetoptions=dispatcher.targetoptions)
        return compile_now(dispatcher, (*array_types, *defaults(definition, len(array_types), types)))
    except (BridgeError, Warning):
        raise
    except Exception as error:
        raise refused(definition, array_types, error) from error


def defaults(definition: CudaDefinition, count: int, types: Any) -> tuple[Any, ...]:
    """Numba's types of the parameters after the first ``count``, which have default values and take no argument.

    ``types`` is the module of types of the kernel's compiler.
    """
    parameters = list(inspect.signature(definition.function).parameters.values())
    return tuple(types.Omitted(each.default) for each in parameters[count:] if each.default is not each.empty)


def check_declared(definition: CudaDefinition, array_types: Sequence[Any]) -> None:
    """Raises KernelCompileError if a kernel with explicit signatures has none of these dtypes and ranks."""
    declared = list(definition.dispatcher.overloads)
    for signature in declared:
        if [(t.dtype, t.ndim) for t in signature] == [(t.dtype, t.ndim) for t in array_types]:
            return
    raise KernelCompileError(
        f"{definition.name} is declared for {'; '.join(map(str, declared))}, but was called with {array_types}. "
        "Convert the arguments, or declare this signature too."
    )


def compile_now(dispatcher: Any, array_types: tuple[Any, ...]) -> Any:
    """The compiled kernel of a dispatcher for these types, which carries its code, see :func:`code_of`."""
    compiled = dispatcher.compile(array_types)
    code_of(compiled)
    return compiled


_CODE = "_bridge_code"
_ADDRESS = re.compile(r"\binttoptr\s*\(?\s*i64 [1-9]")
_BOUND = re.compile(r'!"(?:maxn|reqn|minn|minctasm|maxcluster|cluster)\w*", i32 \d+')


def code_of(compiled: Any) -> str | None:
    """What Numba-CUDA made of a kernel: the same in every process, and different if the machine code differs.

    None if the kernel refers to memory or to functions of this process, such as a global array on the device.
    """
    known: dict[str, str | None] = vars(compiled)
    if _CODE not in known:
        known[_CODE] = _write_code(compiled)
    return known[_CODE]


def _write_code(compiled: Any) -> str | None:
    from bridge.compat import numba_cuda as compat

    made_from = compat.code(compiled)
    code = portable_code(made_from.modules, made_from.name, lambda definition, find: None)
    own_setup = any(not each.__module__.startswith("numba.cuda.") for each in made_from.setups)
    if made_from.objects or own_setup or _ADDRESS.search(code):
        return None
    linked = [_linked_code(file) for file in made_from.files]
    if None in linked:
        return None
    options: dict[str, Any] = {
        **made_from.options,
        "debug": bool(compiled.debug),
        "lineinfo": bool(compiled.lineinfo),
        "cooperative": bool(compiled.cooperative),
        "shared_memory_carveout": compiled.shared_memory_carveout,
        # Metadata is no part of portable code.
        "bounds": {bound for module in made_from.modules for bound in _BOUND.findall(module)},
    }
    if compiled.debug:
        # The code only has the number of an exception.
        options["exceptions"] = compiled.call_helper.exceptions
    return "\n".join([json.dumps(options, sort_keys=True, default=_plain), *sorted(map(str, linked)), code])


def _plain(value: Any) -> Any:
    """An option that JSON does not have, in the same words in every process."""
    return sorted(map(repr, value)) if isinstance(value, set | frozenset) else repr(value)


def _linked_code(file: Any) -> str | None:
    """The content of a file that a kernel is linked with, and of what it includes."""
    from numba.cuda.utils import cached_file_read

    if isinstance(file, str):
        kind, data = os.path.splitext(file)[1].lstrip("."), cached_file_read(file, how="rb")
    else:
        kind, data = str(file.kind), file.data
        data = data.read() if hasattr(data, "read") else data
    content = data.encode() if isinstance(data, str) else bytes(data)
    digest = hashlib.sha256(content).hexdigest()
    if kind != "cu":
        return f"{kind} {digest}"
    versions = functools.partial(header_versions, "numba-cuda")
    included = included_by(content.decode("latin-1"), [os.curdir, *_search_paths()], versions)
    return included and f"{kind} {digest} {included}"


def _search_paths() -> list[str]:
    from numba.cuda import config

    return [path for path in (config.CUDA_NVRTC_EXTRA_SEARCH_PATHS or "").split(":") if path]


def name_of(compiled: Any) -> str:
    """The name of a compiled kernel, for errors. One from Numba's disk cache has the name of its machine code only."""
    function = getattr(compiled, "py_func", None)
    return str(compiled.entry_name if function is None else function.__name__)


def machine_code(compiled: Any, capability: int) -> tuple[bytes, str]:
    """The cubin of a compiled kernel for a compute capability, such as 90, and the kernel's name in it."""
    from bridge.compat import numba_cuda as compat

    return compat.cubin(compiled, capability), compat.code(compiled).name


def load_function(compiled: Any, ordinal: int) -> int:
    """The handle of a compiled kernel on a device whose context is current."""
    from bridge.compat.numba_cuda import loaded

    return driver.load_function(loaded(compiled, ordinal).handle)


def waits_for_launch(compiled: Any, ordinal: int) -> bool:
    """Whether a kernel waits by itself for the end of the launch before it, on GPUs that let it begin earlier.

    The PTX instruction is ``griddepcontrol.wait``, of compute capability 9.0 and later. A kernel that has it must reach
    it before it reads or writes anything that earlier launches use.
    """
    from bridge.compat.numba_cuda import assembly

    return "griddepcontrol.wait" in assembly(compiled, ordinal)


def load_kernel(name: str, compiled: Any, shape: LaunchShape, ordinal: int) -> int:
    """The kernel's function handle on a device.

    Raises:
        LaunchError: The launch is over a limit of the device.
    """
    from numba import cuda

    with cuda.gpus[ordinal]:
        handle = load_function(compiled, ordinal)
        check_launch(name, handle, shape, compiled.cooperative, ordinal)
    return handle
