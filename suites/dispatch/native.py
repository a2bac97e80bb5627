"""Compiles and registers the C++ handlers that the benchmark compares with."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import jax
import jax.ffi

from suites.dispatch.path import PathUnavailableError

_SOURCES = Path(__file__).parent
_FLAGS = ("-O3", "-std=c++17", "-shared")
_COMPILE_LIMIT_S = 300


def cpp_compiler() -> list[str]:
    """Returns the C++ compiler as a command: ``$CXX``, or the first of c++, g++ and clang++ that exists.

    Raises:
        PathUnavailableError: There is none.
    """
    wanted = os.environ.get("CXX", "").split()
    for command in (wanted,) if wanted else (["c++"], ["g++"], ["clang++"]):
        found = shutil.which(command[0])
        if found:
            return [found, *command[1:]]
    tried = f"$CXX, {' '.join(wanted)}" if wanted else "c++, g++, clang++"
    raise PathUnavailableError(f"no C++ compiler found (tried {tried})")


def nvcc() -> list[str]:
    """Returns the CUDA compiler as a command: ``$NVCC``, nvcc on the path, or nvcc in ``$CUDA_HOME``.

    Raises:
        PathUnavailableError: There is none.
    """
    home = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    for candidate in (os.environ.get("NVCC"), "nvcc", str(Path(home, "bin", "nvcc"))):
        found = shutil.which(candidate) if candidate else None
        if found:
            return [found]
    raise PathUnavailableError(f"no CUDA compiler found (tried $NVCC, nvcc, {home}/bin/nvcc)")


def build_cpu(folder: Path | None = None) -> Path:
    """Compiles ``add_cpu.cc``.

    Args:
        folder: The folder for the library; None for the user's cache.

    Raises:
        PathUnavailableError: There is no compiler, or it failed.
    """
    return _build(cpp_compiler(), ("-fPIC", "-isystem", jax.ffi.include_dir()), "add_cpu.cc", folder)


def build_cuda(compute_capability: str, folder: Path | None = None) -> Path:
    """Compiles ``add_cuda.cu`` for one architecture. This needs no GPU.

    Args:
        compute_capability: The architecture in JAX's notation, such as ``"9.0"``.
        folder: The folder for the library; None for the user's cache.

    Raises:
        PathUnavailableError: There is no compiler, or it failed.
    """
    architecture = f"-arch=sm_{compute_capability.replace('.', '')}"
    flags = (architecture, "-Xcompiler", "-fPIC", "-isystem", jax.ffi.include_dir())
    return _build(nvcc(), flags, "add_cuda.cu", folder)


def compiler_versions(platform: str) -> dict[str, str]:
    """Returns the version of the compiler of a platform's C++ handler, by its name; empty without a compiler."""
    try:
        compiler = nvcc() if platform == "cuda" else cpp_compiler()
        lines = _call([*compiler, "--version"]).strip().splitlines()
    except PathUnavailableError:
        return {}
    return {Path(compiler[0]).name: lines[-1 if platform == "cuda" else 0]}


def register(library: ctypes.CDLL, symbol: str, target: str, platform: str) -> None:
    """Registers a handler of a library with XLA, for as long as the process lives."""
    handler = jax.ffi.pycapsule(getattr(library, symbol))
    jax.ffi.register_ffi_target(target, handler, platform=platform)


def _build(compiler: Sequence[str], flags: Sequence[str], source: str, folder: Path | None) -> Path:
    text = (_SOURCES / source).read_bytes()
    banner = _call([*compiler, "--version"])
    identity = repr((compiler, flags, _FLAGS, banner, version("jaxlib"))).encode()
    digest = hashlib.sha256(text + identity).hexdigest()[:16]
    folder = folder or _cache_folder()
    library = folder / f"{Path(source).stem}-{digest}.so"
    if library.exists():
        return library
    folder.mkdir(parents=True, exist_ok=True)
    # The library is built elsewhere and then moved here. So two processes that build at once both find a whole file.
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        built = Path(scratch, library.name)
        _call([*compiler, *_FLAGS, *flags, str(_SOURCES / source), "-o", str(built)])
        built.replace(library)
    return library


def _cache_folder() -> Path:
    # A folder of the user, not the shared temporary folder: the files in it are loaded as code.
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "kernel-bridge", "dispatch")


def _call(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_COMPILE_LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PathUnavailableError(f"{command[0]} did not run: {error}") from error
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines() or ["?"]
        raise PathUnavailableError(f"{command[0]} failed with status {done.returncode}: {lines[0].strip()}")
    return done.stdout
