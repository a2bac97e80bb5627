"""Registers the FFI targets that XLA calls, and keeps the table of the kernels (entries) that each of them can run.

XLA never forgets or replaces a target. A second registration under one name is ignored, or kills the backend if it
comes before start-up. So the targets live as long as the process, and only their tables change.

A call names its entry by content: a description of the kernel and its argument types, and a 64-bit hash of it, the key.
Both are the same in every process, as ``jax.export`` and the persistent compilation cache require. An address never
leaves the process.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import jax

from bridge.errors import BridgeError
from bridge.ffi import forked
from bridge.ffi.native.abi import ERROR, EXTENSION, FRAME, METADATA, NEWEST, VERSION, header
from bridge.ffi.native.addresses import c_function, words_at
from bridge.ffi.native.table import NativeTable
from bridge.ffi.native.trampoline import Trampoline

if TYPE_CHECKING:
    from bridge.ffi.built import Built
    from bridge.ffi.table_entry import Entry

# Laid out at import, so that a header which lacks one of them is refused there. Any: ctypes adds their fields.
_FRAME: Any = header.struct("XLA_FFI_CallFrame")
_METADATA_EXTENSION: Any = header.struct("XLA_FFI_Metadata_Extension")
_METADATA: Any = header.struct("XLA_FFI_Metadata")
_SPAN: Any = header.struct("XLA_FFI_ByteSpan")
_ERROR_ARGS: Any = header.struct("XLA_FFI_Error_Create_Args")
_API: Any = header.struct("XLA_FFI_Api")

RESOLVER = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)
"""Type of the C function that a handler asks about an unknown key, see :mod:`bridge.ffi.native.handler`."""

Resolver = Callable[[str, str], "Entry"]
"""Finds the entry for a platform and a description. Raises an error that tells the user which kernel to define."""


class Target:
    """A native FFI handler under a fixed name, with its table of entries.

    Args:
        name: The custom call target; also what ``jax.export`` asks to be allowed.
        platform: JAX's name of the platform, ``"cpu"`` or ``"cuda"``.
        execute: Makes the native ``(frame, plan) -> error``, when the target is first needed.
        traits: Bits of ``XLA_FFI_Handler_Traits``.
        is_portable: Whether the code of ``execute`` refers to no address. Then the handler is kept on disk.
    """

    def __init__(
        self,
        name: str,
        platform: str,
        execute: Callable[[], Callable[..., Any]],
        traits: int = 0,
        is_portable: bool = False,
    ):
        self.name = name
        self.platform = platform
        self._execute = execute
        self._traits = traits
        self._is_portable = is_portable
        self._lock = threading.RLock()
        self._table = NativeTable()
        forked.watch(self._table)
        self._entries: dict[str, Entry] = {}
        self._resolver: Resolver | None = None
        self._native: tuple[Any, ...] | None = None
        self._trampoline: Trampoline | None = None

    def __len__(self) -> int:
        return len(self._entries)

    def register(self) -> None:
        """Registers the target with XLA. Its handler is compiled by :meth:`install`, or by the first call."""
        with self._lock:
            if self._trampoline is None:
                first = _FIRST_CALL(self._first_call)
                # XLA keeps the raw pointer, so these objects live as long as the process.
                self._first, self._trampoline = first, Trampoline(c_function(first))
                jax.ffi.register_ffi_target(
                    self.name,
                    jax.ffi.pycapsule(ctypes.c_void_p(self._trampoline.address)),
                    platform=_FFI_PLATFORMS[self.platform],
                )

    def install(self) -> None:
        """Compiles the handler, or finds it on disk, the first time it is called."""
        with self._lock:
            if self._native is not None:
                return
            self.register()
            # Imported now, because Numba takes a while to import.
            from bridge.ffi.native import handler
            from bridge.ffi.native.prepared import prepared

            resolver = RESOLVER(self._resolve)
            words = handler.context_words(self._table.address, c_function(resolver), self._traits)
            native = prepared(lambda: handler.compile_target(self._execute()), self.name if self._is_portable else None)
            native.set_context(ctypes.addressof(words))
            self._native = native, resolver, words
            assert self._trampoline is not None
            self._trampoline.point_at(native.address)

    @contextlib.contextmanager
    def replaced_by(self, function: int) -> Iterator[int]:
        """Makes XLA call another function in the place of the handler, inside the ``with`` block.

        Calls of every thread go there, so the caller waits for the end of its programs before it leaves the block.

        Args:
            function: Address of a function of the same type, which lives as long as the process.

        Yields:
            The address of the handler.
        """
        self.install()
        assert self._native is not None
        assert self._trampoline is not None
        handler_address = int(self._native[0].address)
        self._trampoline.point_at(function)
        try:
            yield handler_address
        finally:
            self._trampoline.point_at(handler_address)

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
            self.install()
            assert self._native is not None
            return int(_FIRST_CALL(self._native[0].address)(frame_address))
        except Exception as error:
            return _create_error(frame, error)

    def variant(
        self, suffix: str, around: Callable[[Callable[..., Any]], Callable[..., Any]], is_portable: bool = False
    ) -> Target:
        """A further target with the same entries.

        Args:
            suffix: Added to the name.
            around: Makes the native ``(frame, plan) -> error`` of the new target from the one of this target.
            is_portable: Whether the code that ``around`` adds refers to no address.
        """
        is_portable = is_portable and self._is_portable
        other = Target(self.name + suffix, self.platform, lambda: around(self._execute()), self._traits, is_portable)
        other._lock, other._table, other._entries = self._lock, self._table, self._entries
        other._resolver = self._resolver
        return other

    def resolve_with(self, resolver: Resolver) -> None:
        """Sets the function that finds the entries of programs from other processes, which name them by description."""
        self._resolver = resolver

    def publish(self, description: str, build: Callable[[], Built]) -> Entry:
        """The entry of this description, which is built and added to the table if it is new.

        Raises:
            BridgeError: Another description has the same key; for two of them the chance is 2**-64.
            ForkedProcessError: This process was forked after XLA had started.
        """
        from bridge.ffi.table_entry import Entry

        forked.require_own_process(self.name)
        self.install()
        with self._lock:
            entry = self._entries.get(description)
            if entry is None:
                entry = Entry.of(description, build())
                if entry.key in self._table:
                    raise BridgeError(f"{description} has the key of another kernel. Rename the kernel.")
                self._entries[description] = entry
                self._table[entry.key] = entry.address
            return entry

    def _resolve(self, frame_address: int, answer_address: int) -> None:
        """Finds the plan for a key that native code did not find in the table: the slow path, once for each key."""
        from bridge.ffi.built import Built
        from bridge.ffi.cuda import embedded

        answer = (ctypes.c_int64 * 2).from_address(answer_address)
        frame = _FRAME.from_address(frame_address)
        try:
            description = _string_attribute(frame, "kernel")
            forked.require_own_process(self.name)
            if "code" in _attributes(frame):
                text = _string_attribute(frame, "code")
                answer[0] = self.publish(description, lambda: Built(embedded.read(text))).address
                return
            if self._resolver is None:
                raise BridgeError(f"this program calls {description}, but nothing in this process finds its kernels.")
            answer[0] = self._resolver(self.platform, description).address
        except Exception as error:
            answer[1] = _create_error(frame, error)


def _text(span_address: int) -> str:
    span = _SPAN.from_address(span_address)
    return ctypes.string_at(span.ptr, span.len).decode() if span.len else ""


def _attributes(frame: Any) -> dict[str, int]:
    """The addresses of the attributes of a call, by their names."""
    names, values = (words_at(each, frame.attrs.size) for each in (frame.attrs.names, frame.attrs.attrs))
    return dict(zip(map(_text, names), values, strict=True))


def _string_attribute(frame: Any, name: str) -> str:
    address = _attributes(frame).get(name)
    if address is None:
        raise BridgeError(f"the call has no attribute {name!r}; it was made by another version of kernel-bridge")
    return _text(address)


def _create_error(frame: Any, error: Exception) -> int:
    from bridge.ffi.native.exception_text import error_code

    text = ctypes.create_string_buffer(f"{type(error).__name__}: {error}".encode())
    args = _ERROR_ARGS(struct_size=ERROR.BYTES, message=ctypes.addressof(text), errc=error_code(error, ERROR.NOT_FOUND))
    create = _API.from_address(frame.api).XLA_FFI_Error_Create
    return int(_FIRST_CALL(create)(ctypes.addressof(args)))


_FIRST_CALL = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)

_FFI_PLATFORMS = {"cpu": "cpu", "cuda": "CUDA"}


def _host() -> Any:
    from bridge.ffi.plans import host

    return host.execute


def _cuda() -> Any:
    from bridge.ffi.cuda import execution

    return execution.execute_launches()


def _cuda_python() -> Any:
    from bridge.ffi.cuda import execution

    return execution.execute_callback()


CPU = Target("bridge_cpu", "cpu", _host, is_portable=True)
"""Calls kernels on the host: plans are :class:`~bridge.ffi.plans.host.HostPlan`."""

CUDA = Target("bridge_cuda", "cuda", _cuda, traits=METADATA.COMMAND_BUFFER)
"""Launches kernels on XLA's stream, also into CUDA graphs: plans are :class:`~bridge.ffi.plans.device.DevicePlan`."""

CUDA_PYTHON = Target("bridge_cuda_python", "cuda", _cuda_python)
"""Calls Python with XLA's stream, at each call: plans are :class:`~bridge.ffi.plans.callback.CallbackPlan`."""

TARGETS = (CPU, CUDA, CUDA_PYTHON)
"""All targets of this process."""

if (VERSION.MAJOR, VERSION.MINOR) > NEWEST:
    from bridge.ffi.newer_ffi import require_sound

    require_sound((VERSION.MAJOR, VERSION.MINOR))

# Registered at import, so that a process which only imports this package can run exported programs.
for _target in TARGETS:
    _target.register()
