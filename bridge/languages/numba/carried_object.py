"""Makes object code of a Numba kernel for an exported program, and loads it where the kernel is not defined."""

from __future__ import annotations

import builtins
import hashlib
import pickle
import re
from collections.abc import Sequence
from typing import Any

import msgspec
import numba
from llvmlite import binding
from numba.core import types
from numba.core.compiler_lock import global_compiler_lock
from numba.core.environment import Environment, lookup_environment
from numba.core.registry import cpu_target

from bridge.compat import numba as compat
from bridge.errors import BridgeError
from bridge.ffi.native.object_code import require_processor, require_symbols
from bridge.ffi.plans.host import HostPlan
from bridge.languages.numba import linking
from bridge.languages.numba.linking import linked, outside, provide


class _Object(msgspec.Struct, frozen=True):
    """Object code.

    Attributes:
        content: An object file.
        entry: The function in it that a plan calls.
        outside: The functions and variables that it takes from the process.
        constants: The Python objects that it uses, by the variable of each list, pickled.
        triple: The system and processor that it is for.
        features: The features that the processor needs.
        numba: The version of Numba, whose functions it may call.
    """

    content: bytes
    entry: str
    outside: tuple[str, ...]
    constants: bytes
    triple: str
    features: tuple[str, ...]
    numba: str


_ADDRESS = re.compile(r"inttoptr \(i64 [1-9]")


@global_compiler_lock
def object_of(compiled: Any, arrays: Sequence[types.Array], kernel: str, code: str | None) -> tuple[str, bytes]:
    """The object code of a kernel, and the kind of :class:`~bridge.kernel.carried.Carried`.

    Args:
        compiled: Numba's ``CompileResult`` of the kernel for exactly ``arrays``.
        arrays: C-contiguous Numba array types, inputs then outputs.
        kernel: Its name.
        code: Identifies the code.

    Raises:
        BridgeError: The code runs in this process only; the error says why.
    """
    entry = f"bridge_entry_{hashlib.sha256(repr((code, arrays)).encode()).hexdigest()[:32]}"
    with linked(compiled, arrays, kernel, entry) as module:
        names, text = [each.name for each in module.global_variables], str(module)
        if any(name.startswith(compat.DYNAMIC_GLOBALS) for name in names) or _ADDRESS.search(text):
            raise BridgeError("it calls a function of another library by its address")
        constants = {}
        for index, name in enumerate(each for each in names if each.startswith(compat.ENVIRONMENT)):
            found = lookup_environment(name)
            # Renamed, because a kernel of the other process may have the same name.
            module.get_global_variable(name).name = own = f"{entry}_constants_{index}"
            constants[own] = [] if found is None else list(found.consts)
        try:
            objects = pickle.dumps(constants)
        except Exception as error:
            raise BridgeError(f"it uses a Python object that cannot be pickled ({error})") from error
        content = _Object(
            compat.machine_code(module), entry, outside(module), objects, binding.get_process_triple(),
            tuple(compat.processor_features()), numba.__version__,
        )  # fmt: skip
    return "numba", msgspec.msgpack.encode(content)


@global_compiler_lock
def plan_of(name: str, content: bytes) -> HostPlan:
    """The plan that runs object code of another process.

    Raises:
        BridgeError: It is for another processor, or another version of Numba.
    """
    code = msgspec.msgpack.decode(content, type=_Object)
    require_processor(name, code.triple, code.features)
    if code.outside and code.numba != numba.__version__:
        raise BridgeError(
            f"this program holds code of {name} that calls functions of Numba {code.numba}, and here is Numba "
            f"{numba.__version__}. Install that version, or define the kernel in this process."
        )
    cpu_target.target_context.refresh()  # makes the functions of Numba's runtime known to LLVM
    if any("parallel" in each or "thread" in each for each in code.outside):
        numba.get_num_threads()  # starts Numba's threads
    provide(code.outside)
    require_symbols(name, code.outside)
    address, environments = compat.load(code.content, code.entry), []
    for variable, constants in pickle.loads(code.constants).items():
        environment = Environment({"__builtins__": builtins})
        environment.consts[:] = constants
        compat.set_environment(variable, environment)
        environments.append(environment)
    return linking.plan_of(address, code.outside, environments)
