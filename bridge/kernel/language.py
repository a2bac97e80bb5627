"""Describes kernel languages whose kernels become machine code: how the bridge compiles and calls them."""

from __future__ import annotations

import abc
import hashlib
import threading
import uuid
from collections.abc import Callable, Hashable
from dataclasses import InitVar, dataclass, field
from types import FunctionType
from typing import Any, Generic, TypeVar

import msgspec

from bridge.errors import KernelCompileError
from bridge.ffi.kernel_call import ATTACH_A_RULE
from bridge.ffi.plans.device import DevicePlan
from bridge.ffi.plans.host import HostPlan
from bridge.ffi.target import Target
from bridge.kernel.arguments import Signature
from bridge.kernel.references import place_of
from bridge.table import Language

Plan = HostPlan | DevicePlan
"""What native code runs for one kernel."""

CPU_DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "bfloat16", "float32", "float64", "complex64", "complex128",
)  # fmt: skip
"""Names of the dtypes that kernels for the CPU take and return."""


class NoOptions(msgspec.Struct, frozen=True):
    """The options of a language that has none."""


PROCESS_LOCAL = "local"
"""Prefix of the identity of code that only this process has."""


@dataclass(eq=False)
class Compiled:
    """A kernel that is compiled for the types of one call, and not loaded yet.

    Attributes:
        code: What the compiler made of the kernel, or everything that the compiler reads. Calls with equal code run the
            same machine code, in all processes. None if the code refers to something that only this process has.
        load: Loads the kernel, for the life of the process: returns the plan that native code runs.
        scratch: Bytes of each temporary buffer of a call. These are uint8 results after the kernel's own results.
        guarded: Indices of the inputs that the kernel gets copies of, because it is not shown to leave them unchanged.
            The plan has a further output for each, of the same type, which comes last and shares the copy's buffer.
        target: The FFI target that runs the plan; None for the one of the platform.
        one_device: Why no program of several devices can call the kernel; empty if they can.
        carry: Makes the machine code that an exported program holds: the kind and content of a
            :class:`~bridge.kernel.carried.Carried`. It raises a BridgeError that says why there is none.
        identity: Names the code, in programs and in every process.
    """

    code: InitVar[str | bytes | None]
    load: Callable[[], Plan]
    scratch: tuple[int, ...] = ()
    guarded: tuple[int, ...] = ()
    target: Target | None = None
    one_device: str = ""
    carry: Callable[[], tuple[str, bytes]] | None = None
    identity: str = field(init=False)

    def __post_init__(self, code: str | bytes | None) -> None:
        if code is None:
            self.identity = f"{PROCESS_LOCAL}-{uuid.uuid4().hex}"
        else:
            self.identity = hashlib.sha256(code.encode() if isinstance(code, str) else code).hexdigest()


CodeT = TypeVar("CodeT")


@dataclass(frozen=True, eq=False)
class Definition:
    """One kernel as its user defined it. Subclasses add the source that they compile.

    Two definitions are equal only if they are the same object, see :class:`bridge.kernel.definitions.Definitions`.

    Attributes:
        name: Names the kernel in errors, and in the programs that call it.
        function: Has the parameters of the kernel: its inputs, then its outputs. Also has its docstring.
        source_function: The Python function that has to write to the outputs; None if the kernel is not in Python.
    """

    name: str
    function: Callable[..., Any] = field(repr=False)
    source_function: FunctionType | None = field(repr=False)
    _lock: threading.RLock = field(default_factory=threading.RLock, init=False, repr=False)
    _compiled: dict[Any, Any] = field(default_factory=dict, init=False, repr=False)

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()  # a kernel that holds it may be pickled; another process makes its own

    @property
    def place(self) -> str:
        """File and line of the Python source, for errors."""
        assert self.source_function is not None
        return place_of(self.source_function)

    def compiled(self, key: Any, compile_now: Callable[[], CodeT]) -> CodeT:
        """What is compiled of the kernel for a key, once. Threads that need the same one wait for it."""
        with self._lock:
            known: CodeT | None = self._compiled.get(key)
            if known is None:
                known = self._compiled[key] = compile_now()
            return known


_WIDER = {
    "float": "float32", "bfloat16": "float32", "int2": "int8", "int4": "int8", "uint2": "uint8", "uint4": "uint8",
}  # fmt: skip
"""The dtypes to convert to, by what the names of other dtypes begin with."""

DefinitionT = TypeVar("DefinitionT", bound=Definition)
OptionsT = TypeVar("OptionsT")


@dataclass(frozen=True, eq=False, kw_only=True)
class NativeLanguage(abc.ABC, Generic[DefinitionT, OptionsT]):
    """A language whose kernels become machine code that XLA calls without Python.

    Subclasses compile a kernel (:meth:`compile`). All methods get the definition of the kernel, the options of its
    wrapper (a frozen ``msgspec.Struct``, such as a launch shape), and the signature of the call.

    Attributes:
        row: Its name and its platforms, and the public function that wraps its kernels.
        compiler: How errors call its compiler, such as "Numba's CPU target".
        options_type: Type of the options.
        dtypes: Names of the dtypes that its kernels take; None if only the compiler knows them.
        with_extents: Whether kernels are compiled for extents; if not, calls with equal ranks share the machine code.
        compiles_when_traced: Whether kernels are compiled when JAX traces a call, so that errors name the user's line.
            Only for languages of one platform, or whose kernels have the same temporaries and copies on all of them.
            Other kernels are compiled when JAX lowers the call.
        local_kernels: Why a kernel whose code only this process has cannot be exported, and what to do. By default it
            can: the program runs in this process.
        derivative_advice: Tells the user, in an error, how to attach a derivative to a kernel that has none.
    """

    row: Language = field(kw_only=False)
    compiler: str
    options_type: type[OptionsT]
    dtypes: tuple[str, ...] | None = None
    with_extents: bool = True
    compiles_when_traced: bool = True
    local_kernels: str | None = None
    derivative_advice: str = ATTACH_A_RULE

    @property
    def name(self) -> str:
        """Its name in the descriptions of kernels."""
        return self.row.name

    @abc.abstractmethod
    def compile(self, definition: DefinitionT, options: OptionsT, signature: Signature, platform: str) -> Compiled:
        """Compiles a kernel for one platform.

        The bridge calls this once for each definition, options, signature, platform and :meth:`settings`. So the code
        that identifies a kernel is the code that runs, whatever changes later.

        Raises:
            KernelCompileError: The compiler refuses the kernel for these types.
        """

    def settings(self, definition: DefinitionT) -> Hashable:
        """The settings of the compiler that are not part of a kernel, and under which it would be compiled now."""
        return None

    def check(self, definition: DefinitionT, options: OptionsT, signature: Signature) -> None:
        """Refuses a call when it is traced, before anything is compiled. By default it checks the dtypes.

        Raises:
            KernelCompileError: A dtype is not supported.
        """
        for array in signature.arrays:
            if self.dtypes is not None and array.dtype not in self.dtypes:
                wider = next((wide for start, wide in _WIDER.items() if array.dtype.startswith(start)), None)
                cure = (
                    "Pass jax.random.key_data(key)."
                    if array.dtype.startswith("key<")
                    else f"Convert it to {wider} before the call."
                    if wider in self.dtypes
                    else f"Supported are {', '.join(self.dtypes)}."
                )
                raise KernelCompileError(f"{definition.name}: {self.compiler} has no {array.dtype} arrays. {cure}")
