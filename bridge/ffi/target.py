"""Registers the FFI targets that XLA calls, and keeps the table of the kernels that each of them can run.

XLA never forgets or replaces a target. A second registration under one name is ignored, or kills the backend if it
comes before start-up. So the targets live as long as the process, and only their tables change.

A call names its kernel by content: a description of kernel and argument types, and a 64-bit hash of it, the key.
Both are the same in every process, as ``jax.export`` and the persistent compilation cache require. An address never
leaves the process.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import jax
from jax.export import DisabledSafetyCheck

from bridge.errors import BridgeError, ForkedProcessError
from bridge.ffi.native.abi import ERROR, EXTENSION, FRAME, METADATA, VERSION, header
from bridge.ffi.native.addresses import NativeTable, Trampoline, c_function, words_at
from bridge.ffi.native.exception_text import create_error, error_code

# Laid out at import, so that a header which lacks one of them is refused there. Any: ctypes adds their fields.
_FRAME: Any = header.struct("XLA_FFI_CallFrame")
_METADATA_EXTENSION: Any = header.struct("XLA_FFI_Metadata_Extension")
_METADATA: Any = header.struct("XLA_FFI_Metadata")
_SPAN: Any = header.struct("XLA_FFI_ByteSpan")

RESOLVER = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)
"""Type of the C function that a handler asks about an unknown key, see :mod:`bridge.ffi.native.call_frame`."""

_HANDLER = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)

Resolver = Callable[[str, str, str], int]
"""Finds the plan for a platform and a description. Raises an error that tells the user which kernel to define."""


def key_of(description: str) -> int:
    """The non-zero signed 64-bit key of a description: the start of its SHA-256."""
    digest = hashlib.sha256(description.encode()).digest()
    return int.from_bytes(digest[:8], "little", signed=True) or 1


class _Kernels:
    """The kernels that a target and its variants run. They live as long as the process.

    A program may call a kernel long after the last reference to its wrapper is gone: it may be running now, or come
    from ``jax.export``, and nobody can know.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.table = NativeTable()
        self.plans: dict[str, int] = {}
        self.alive: list[Any] = []
        self.resolver: Resolver


class Target:
    """A native FFI handler under a fixed name, with its table of kernels.

    It is registered with XLA at once, so that a process which only imports this package can run exported programs. Its
    handler is compiled by :meth:`install`, or by the first call.

    Args:
        name: The custom call target; also what ``jax.export`` asks to be allowed.
        platform: JAX's name of the platform, ``"cpu"`` or ``"cuda"``.
        execute: Makes the native ``(frame, plan) -> error``, when the target is first needed.
        traits: Bits of ``XLA_FFI_Handler_Traits``.
        is_portable: Whether the code of ``execute`` refers to no address. Then the handler is kept on disk.
        variant_of: The target whose kernels and words it has; by default it has its own.
        words: Gives what the code reads as ``context_word(FOR_EXECUTE)``, when the target is first needed.
    """

    def __init__(
        self,
        name: str,
        platform: str,
        execute: Callable[[], Callable[..., Any]],
        traits: int = 0,
        is_portable: bool = False,
        variant_of: Target | None = None,
        words: Callable[[], int] | None = None,
    ):
        self.name = name
        self.platform = platform
        self._execute = execute
        self._traits = traits
        self._is_portable = is_portable
        self._words: Callable[[], int] = words or ((lambda: 0) if variant_of is None else variant_of._words)
        self._kernels: _Kernels = _Kernels() if variant_of is None else variant_of._kernels
        self._native: tuple[Any, ...] | None = None
        # XLA keeps the raw pointer, so these objects live as long as the process.
        self._first = _HANDLER(self._first_call)
        self._trampoline = Trampoline(c_function(self._first))
        capsule = jax.ffi.pycapsule(ctypes.c_void_p(self._trampoline.address))
        jax.ffi.register_ffi_target(name, capsule, platform={"cpu": "cpu", "cuda": "CUDA"}[platform])

    def __len__(self) -> int:
        return len(self._kernels.plans)

    def install(self) -> int:
        """Compiles the handler, or finds it on disk, the first time it is called; returns its address."""
        with self._kernels.lock:
            if self._native is None:
                # Imported now, because Numba takes a while to import.
                from bridge.ffi.native import call_frame
                from bridge.ffi.native.object_code import prepared

                resolver = RESOLVER(self._resolve)
                table = self._kernels.table.address
                words = call_frame.context_words(table, c_function(resolver), self._traits, self._words())
                name = self.name if self._is_portable else None
                loaded = prepared(lambda: call_frame.compile_target(self._execute()), name)
                loaded.set_context(ctypes.addressof(words))
                self._native = loaded, resolver, words
                self._trampoline.point_at(loaded.address)
            return int(self._native[0].address)

    @contextlib.contextmanager
    def replaced_by(self, function: int) -> Iterator[int]:
        """Makes XLA call another function in the place of the handler, inside the ``with`` block.

        Calls of every thread go there, so the caller waits for the end of its programs before it leaves the block.

        Args:
            function: Address of a function of the same type, which lives as long as the process.

        Yields:
            The address of the handler.
        """
        handler = self.install()
        self._trampoline.point_at(function)
        try:
            yield handler
        finally:
            self._trampoline.point_at(handler)

    def _first_call(self, frame_address: int) -> int:
        """Stands in for the handler until it is compiled: answers XLA's questions, and compiles it when called."""
        frame = _FRAME.from_address(frame_address)
        # Whatever the extension is, it begins as this one does.
        extension = frame.extension_start and _METADATA_EXTENSION.from_address(frame.extension_start)
        if extension and extension.extension_base.type == EXTENSION.METADATA_TYPE:
            metadata = _METADATA.from_address(extension.metadata)
            metadata.api_version.major_version, metadata.api_version.minor_version = VERSION.MAJOR, VERSION.MINOR
            metadata.traits = self._traits
            return 0
        if frame.stage != FRAME.EXECUTE:
            return 0
        try:
            return int(_HANDLER(self.install())(frame_address))
        except Exception as error:
            return _error(frame_address, error)

    def variant(
        self, suffix: str, around: Callable[[Callable[..., Any]], Callable[..., Any]], is_portable: bool = False
    ) -> Target:
        """A further target that runs the same kernels. XLA never records its calls: it may wait for the GPU.

        Args:
            suffix: Added to the name.
            around: Makes the native ``(frame, plan) -> error`` of the new target from the one of this target.
            is_portable: Whether the code that ``around`` adds refers to no address.
        """
        is_portable = is_portable and self._is_portable
        return Target(self.name + suffix, self.platform, lambda: around(self._execute()), 0, is_portable, self)

    def resolve_with(self, resolver: Resolver) -> None:
        """Sets the function that finds the plans of programs from other processes, which name them by description."""
        self._kernels.resolver = resolver

    def publish(self, description: str, load: Callable[[], tuple[int, Any]]) -> int:
        """The address of the plan of this description, which is loaded and added to the table if it is new.

        Args:
            description: Names the kernel by content.
            load: Returns the address of the plan, such as a :class:`bridge.ffi.plans.host.HostPlan` has written, and
                what the plan refers to. Both live as long as the process.

        Raises:
            BridgeError: Another description has the same key; for two of them the chance is 2**-64.
            ForkedProcessError: This process was forked after XLA had started.
        """
        require_own_process(self.name)
        self.install()
        kernels = self._kernels
        with kernels.lock:
            if description not in kernels.plans:
                key = key_of(description)
                if key in kernels.table:
                    raise BridgeError(f"{description} has the key of another kernel. Rename the kernel.")
                plan, alive = load()
                kernels.alive.append(alive)
                kernels.plans[description] = kernels.table[key] = plan
            return kernels.plans[description]

    def _resolve(self, frame_address: int, answer_address: int) -> None:
        """Finds the plan for a key that native code did not find in the table: the slow path, once for each key."""
        answer = (ctypes.c_int64 * 2).from_address(answer_address)
        frame = _FRAME.from_address(frame_address)
        try:
            names, values = (words_at(each, frame.attrs.size) for each in (frame.attrs.names, frame.attrs.attrs))
            attributes = dict(zip(map(_text, names), values, strict=True))
            code = _text(attributes["code"]) if "code" in attributes else ""
            require_own_process(self.name)
            answer[0] = self._kernels.resolver(self.platform, _text(attributes["kernel"]), code)
        except Exception as error:
            answer[1] = _error(frame_address, error)


def _text(span_address: int) -> str:
    span = _SPAN.from_address(span_address)
    return ctypes.string_at(span.ptr, span.len).decode() if span.len else ""


def _error(frame_address: int, error: Exception) -> int:
    return create_error(frame_address, f"{type(error).__name__}: {error}", error_code(error, ERROR.NOT_FOUND))


# Imported when a target is first used: Numba takes a while to import.
def _host(on_stream: bool) -> Any:
    from bridge.ffi.plans import host

    return host.make_execute(on_stream)


def _shared_batch() -> Any:
    from bridge.ffi.plans import shared_batch

    return shared_batch.make_execute()


def _shared_batch_words() -> int:
    from bridge.ffi.plans import shared_batch

    return shared_batch.words_for_execute()


def _device() -> Any:
    from bridge.ffi.plans import device

    return device.make_execute()


def _device_in_turn() -> Any:
    from bridge.ffi.plans import host

    return host.in_turn(_device(), host.Mutex.new())


def _driver_words() -> int:
    from bridge.ffi.cuda import driver

    return driver.driver_words()


CPU = Target("bridge_cpu", "cpu", lambda: _host(on_stream=False), is_portable=True)
"""Calls kernels on the host: plans are :class:`~bridge.ffi.plans.host.HostPlan`."""

CPU_PARALLEL = Target(
    "bridge_cpu_parallel", "cpu", _shared_batch, is_portable=True, variant_of=CPU, words=_shared_batch_words
)
"""The same for batches that XLA's threads share."""

CUDA = Target("bridge_cuda", "cuda", _device, METADATA.COMMAND_BUFFER, is_portable=True, words=_driver_words)
"""Launches kernels on XLA's stream, also into CUDA graphs: plans are :class:`~bridge.ffi.plans.device.DevicePlan`."""

CUDA_IN_TURN = Target("bridge_cuda_in_turn", "cuda", _device_in_turn, variant_of=CUDA)
"""The same for kernels that use memory of their own: calls are made one after another, and not in CUDA graphs."""

CUDA_HOST = Target("bridge_cuda_host", "cuda", lambda: _host(on_stream=True), is_portable=True)
"""Calls functions on the host with XLA's stream: plans are :class:`~bridge.ffi.plans.host.HostPlan`."""

CUDA_HOST_GRAPH = Target(
    "bridge_cuda_host_graph",
    "cuda",
    lambda: _host(on_stream=True),
    METADATA.COMMAND_BUFFER,
    is_portable=True,
    variant_of=CUDA_HOST,
)
"""The same for functions of which users say that XLA may record their work into CUDA graphs."""

TARGETS = (CPU, CPU_PARALLEL, CUDA, CUDA_IN_TURN, CUDA_HOST, CUDA_HOST_GRAPH)
"""All targets of this process."""


_parents: list[int] = []
"""The process that this one was forked from after use: its XLA has threads, which exist only there."""


def _become_child() -> None:
    if any(map(len, TARGETS)):
        _parents.append(os.getppid())
        for target in TARGETS:  # native code then asks Python for each kernel, which answers with the error
            target._kernels.table.forget()


os.register_at_fork(after_in_child=_become_child)


def require_own_process(name: str) -> None:
    """Raises an error in a process that was forked after a kernel had been called: a call could wait for ever.

    Raises:
        ForkedProcessError: XLA's threads do not exist in this process.
    """
    if _parents:
        raise ForkedProcessError(
            f"{name}: process {os.getpid()} was forked from process {_parents[0]}, where XLA runs. XLA's threads do "
            "not exist in a forked process, so a call could wait for ever. Start workers with "
            "multiprocessing.get_context('spawn') or 'forkserver', or fork before JAX is first used."
        )


def export_checks() -> tuple[DisabledSafetyCheck, ...]:
    """The safety checks to disable when exporting a function that calls kernels.

    ``jax.export`` refuses custom calls that it does not know to be stable. The bridge's calls are stable: the program
    holds the machine code of the kernels, see :func:`bridge.export_for`, and names each by its content::

        exported = jax.export.export(jax.jit(f), disabled_checks=bridge.export_checks())(*args)

    The process that runs the program imports the bridge, and needs the kernels' compilers for none of them. A kernel
    whose code cannot be in the program, as a callable's, is defined there with the same wrapper and versions.
    """
    return tuple(DisabledSafetyCheck.custom_call(target.name) for target in TARGETS)
