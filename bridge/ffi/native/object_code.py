"""Compiles native functions of the bridge to object code, loads it, and keeps it on disk for later processes.

No kernel of a user is kept here. A file counts only if it was written for the same source, FFI header, Python, Numba,
LLVM and processor, if its digest is right, and if no other user can write to it. Every other file is written anew. A
folder that cannot be used causes a warning.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import stat
import struct
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import llvmlite
import numba
import platformdirs
from llvmlite import binding

from bridge.compat.numba import final_bitcode, machine_code, pass_builder
from bridge.errors import AbiError, BridgeError
from bridge.ffi.native.abi import read_header
from bridge.ffi.native.addresses import CONTEXT, ENTRY, LoadedObject, parsed

VARIABLE = "KERNEL_BRIDGE_CACHE_DIR"
"""The environment variable with the folder for files that outlive a process; by default, one in the user's cache."""

KEPT = 64
"""Files that are kept: the latest ones."""

_FORMAT = "native-1"
_ELSEWHERE = {"CACHE_DIR", "CACHE_LOCATOR_CLASSES", "NUM_THREADS", "NUMBA_NUM_THREADS", "NUMBA_DEFAULT_NUM_THREADS"}
"""Settings of Numba that no machine code depends on."""


def prepared(compile_now: Callable[[], Any], name: str | None = None) -> LoadedObject:
    """A native function in memory.

    Args:
        compile_now: Compiles the function to a Numba ``CFunc`` that holds no address. What it compiles is written in
            its own file and in :mod:`bridge.ffi`.
        name: Names the object code on disk. None to keep none: the code refers to addresses of this process.
    """
    if name is None:
        return LoadedObject(emit_object(compile_now())[0])
    path = _path(name, compile_now.__code__.co_filename)
    code = _read(path)
    if code is None:
        code, outside = emit_object(compile_now())
        if not outside:
            _write(path, code)
    return LoadedObject(code)


def require_processor(name: str, triple: str, features: Sequence[str]) -> None:
    """Raises BridgeError unless this processor runs object code of another process, for which LLVM would end this one.

    Args:
        name: The kernel.
        triple: The system and processor that the code is for.
        features: The features that the processor needs, such as ``avx2``.
    """
    here = binding.get_host_cpu_features()
    lacks = [each for each in features if not here.get(each)]
    if triple != binding.get_process_triple() or lacks:
        has = f"lacks {', '.join(lacks)}" if lacks else f"is of {binding.get_process_triple()}"
        raise BridgeError(
            f"this program holds code of {name} for {triple}, but this processor {has}. Export it on such a processor. "
            "Code of Numba needs less if it is exported with NUMBA_CPU_NAME=generic."
        )


def taken_by(content: bytes) -> tuple[str, ...]:
    """The functions and variables that an object file takes from the process that loads it.

    Raises:
        BridgeError: It is no object file of Linux, whose format this reads.
    """
    if content[:6] != b"\x7fELF\x02\x01":
        raise BridgeError("its machine code is no 64-bit object file of Linux")
    sections = {each.name(): each.data() for each in binding.ObjectFileRef.from_data(content).sections()}
    texts, symbols = sections[b".strtab"], struct.iter_unpack("<IBBHQQ", sections[b".symtab"])
    starts = [start for start, _, _, section, _, _ in symbols if start and section == 0]
    names = (texts[start : texts.index(b"\0", start)].decode() for start in starts)
    return tuple(name for name in names if name != "_GLOBAL_OFFSET_TABLE_")


def require_symbols(name: str, taken: Sequence[str]) -> None:
    """Raises BridgeError unless this process has what the code of a kernel takes from it: a call would end the process.

    Args:
        name: The kernel.
        taken: The functions and variables.
    """
    for each in taken:
        if not binding.address_of_symbol(each):
            raise BridgeError(f"this program holds code of {name} that calls {each}, which this process does not have.")


def emit_object(function: Any) -> tuple[bytes, tuple[str, ...]]:
    """The object code of a function and of all that it calls, for :class:`LoadedObject`.

    Args:
        function: A Numba ``CFunc`` that works on words.

    Returns:
        The code, and the names that it takes from outside. Without any, it runs in other processes too.

    Raises:
        AbiError: The function refers to something that is not loaded in this process. LLVM would end the process.
    """
    with parsed(final_bitcode(function)) as (module, _):
        module.get_function(function.native_name).name = ENTRY
        for value in (*module.functions, *module.global_variables):
            if not value.is_declaration:
                value.linkage = "external" if value.name in (ENTRY, CONTEXT) else "internal"
        # Once all callees are internal, LLVM sees that they raise nothing, and drops the code for exceptions.
        builder = pass_builder()
        builder.getModulePassManager().run(module, builder)
        values = (*module.functions, *module.global_variables)
        outside = tuple(each.name for each in values if each.is_declaration and not each.name.startswith("llvm."))
        for name in outside:
            if not binding.address_of_symbol(name):
                raise AbiError(f"the native function {function.__name__} refers to {name}, which is not loaded.")
        return machine_code(module), outside


def _path(name: str, source: str) -> Path:
    """The file of a function, whose name says everything that the code depends on."""
    key = hashlib.sha256(f"{name}\n{_digest_of_file(source)}\n{_environment()}".encode()).hexdigest()
    return Path(cache_folder(), _FORMAT, f"{name}-{key}.bin")


def _read(path: Path) -> bytes | None:
    """The object code in a file; None if it does not count."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        digest, code = file.read(hashlib.sha256().digest_size), file.read()
        if is_own(os.fstat(file.fileno())) and code and digest == _digest(path, code):
            return code
    return None


def _write(path: Path, code: bytes) -> None:
    """Writes a file so that other processes see the old or the new one, never a part. Then deletes the oldest ones."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".tmp", delete=False) as file:
            file.write(_digest(path, code) + code)
        os.replace(file.name, path)
        delete_oldest(path)
    except OSError as error:
        _warn_once(
            f"the machine code of native handlers cannot be kept: {error}. So each process compiles it again, which "
            f"takes about a second. Set {VARIABLE} to a folder that can be written to."
        )


def delete_oldest(path: Path) -> None:
    """Keeps the latest of the files in the folder of a file that end as it does."""
    with contextlib.suppress(FileNotFoundError):  # another process deletes them too
        kept = sorted(path.parent.glob(f"*{path.suffix}"), key=lambda each: each.stat().st_mtime)
        for each in kept[:-KEPT]:
            each.unlink(missing_ok=True)


@functools.cache
def _warn_once(message: str) -> None:
    """Warns of what is true of every handler, at the first one."""
    warnings.warn(message, RuntimeWarning, stacklevel=3)


def _digest(path: Path, code: bytes) -> bytes:
    """A digest of the code and of its name: a file under another name does not count."""
    return hashlib.sha256(path.name.encode() + code).digest()


def is_own(status: os.stat_result) -> bool:
    """Whether the file belongs to this user, and no other user can write to it."""
    return status.st_uid in (os.getuid(), 0) and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


@functools.cache
def _environment() -> str:
    """Everything that object code depends on, besides the file that defines its function."""
    settings = {name: value for name, value in vars(numba.config).items() if name.isupper() and name not in _ELSEWHERE}
    parts = [
        read_header(),
        [_digest_of_file(str(path)) for path in sorted(Path(__file__).parents[1].rglob("*.py"))],
        sys.version,
        numba.__version__,
        llvmlite.__version__,
        binding.llvm_version_info,
        binding.get_process_triple(),
        binding.get_host_cpu_name(),
        binding.get_host_cpu_features().flatten(),
        sorted((name, repr(value)) for name, value in settings.items()),
    ]
    return repr(parts)


def _digest_of_file(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def cache_folder() -> Path:
    """The folder, which may not exist."""
    return Path(os.environ.get(VARIABLE) or platformdirs.user_cache_path("kernel-bridge", appauthor=False))


def can_keep_files() -> bool:
    """Whether files can be written to the folder, which is made if it is missing."""
    folder = cache_folder()
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return os.access(folder, os.W_OK | os.X_OK)
