"""Keeps the object code of the bridge's own native functions on disk, so that a later process need not compile it.

No kernel of a user is kept here. A file counts only if it was written for the same FFI header, bridge, Python, Numba,
LLVM and processor, if its digest is right, and if no other user can write to it. Every other file is written anew. A
damaged file, and a folder that cannot be used, cause a warning.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import stat
import sys
import warnings
from pathlib import Path

import llvmlite
import numba
from llvmlite import binding

from bridge.cached_files import VARIABLE, cache_folder, keep_latest, replace_file
from bridge.ffi.native.abi import read_header

KEPT = 64
"""Files that are kept: the latest ones."""

_FORMAT = "native-1"
_DIGEST_BYTES = 32
_ELSEWHERE = frozenset(
    {"CACHE_DIR", "CACHE_LOCATOR_CLASSES", "NUM_THREADS", "NUMBA_NUM_THREADS", "NUMBA_DEFAULT_NUM_THREADS"}
)
"""Settings of Numba that no machine code depends on."""


def read_object(name: str, source: str) -> bytes | None:
    """The object code of a function; None if there is none that counts.

    Args:
        name: The function.
        source: The file that defines it, besides the files of :mod:`bridge.ffi`.
    """
    try:
        key = _key(name, source)
        with _path(name, key).open("rb") as file:
            status = os.fstat(file.fileno())
            content = file.read()
    except OSError:
        return None
    if not _is_own(status):
        warnings.warn(
            f"{_path(name, key)} belongs to another user, or others can write to it, so it does not count. Delete it.",
            RuntimeWarning,
            stacklevel=2,
        )
        return None
    digest, code = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
    if not code or digest != _digest(key, code):
        warnings.warn(
            f"{_path(name, key)} is damaged, so it does not count: its function is compiled again, and the file is "
            "written anew.",
            RuntimeWarning,
            stacklevel=2,
        )
        return None
    return code


def write_object(name: str, source: str, code: bytes) -> None:
    """Keeps the object code of a function. Without a folder that can be written to, it keeps nothing.

    Args:
        name: As for :func:`read_object`.
        source: As for :func:`read_object`.
        code: The object code.
    """
    try:
        key = _key(name, source)
        path = _path(name, key)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        replace_file(path, _digest(key, code) + code)
        keep_latest(path.parent, ".bin", KEPT)
    except OSError as error:
        _warn_once(
            f"the machine code of native handlers cannot be kept: {error}. So each process compiles it again, which "
            f"takes about a second. Set {VARIABLE} to a folder that can be written to."
        )


@functools.cache
def _warn_once(message: str) -> None:
    """Warns of what is true of every handler, at the first one."""
    warnings.warn(message, RuntimeWarning, stacklevel=3)


def _path(name: str, key: str) -> Path:
    return Path(cache_folder(), _FORMAT, f"{name}-{key}.bin")


def _digest(key: str, code: bytes) -> bytes:
    """A digest of the code and of the key: a file under another name does not count."""
    return hashlib.sha256(key.encode() + code).digest()


def _is_own(status: os.stat_result) -> bool:
    """Whether the file belongs to this user, and no other user can write to it."""
    if not hasattr(os, "getuid"):
        return True
    return status.st_uid in (os.getuid(), 0) and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _key(name: str, source: str) -> str:
    return hashlib.sha256(f"{name}\n{_digest_of_file(source)}\n{_environment()}".encode()).hexdigest()


@functools.cache
def _environment() -> str:
    """Everything that object code depends on, besides the file that defines its function."""
    settings = {name: value for name, value in vars(numba.config).items() if name.isupper() and name not in _ELSEWHERE}
    parts = [
        hashlib.sha256(read_header().encode()).hexdigest(),
        [_digest_of_file(str(path)) for path in sorted(Path(__file__).parents[1].rglob("*.py"))],
        sys.version,
        sys.implementation.cache_tag,
        numba.__version__,
        llvmlite.__version__,
        binding.llvm_version_info,
        binding.get_process_triple(),
        binding.get_host_cpu_name(),
        binding.get_host_cpu_features().flatten(),
        platform.machine(),
        sorted((name, repr(value)) for name, value in settings.items()),
    ]
    return repr(parts)


def _digest_of_file(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()
