"""Compiles a file of CUDA C++ with its host code to a shared library: :func:`cuda_library`."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import jax

from bridge.cuda.includes import included_by
from bridge.errors import CudaUnavailableError, KernelCompileError, SignatureError
from bridge.ffi.native.object_code import cache_folder, can_keep_files, delete_oldest, is_own

_FORMAT = "libraries-1"
_FOLDERS = ("-I", "--include-path", "-isystem", "--system-include", "-include", "--pre-include", "-optf")
"""Options that name files whose content would not count."""


def cuda_library(
    file: str | os.PathLike[str], *, options: Sequence[str] = (), headers: Sequence[str | os.PathLike[str]] = ()
) -> ctypes.CDLL:
    """Compiles a file of CUDA C++ with nvcc, host code and all, and loads it. What it exports is for `native_kernel`.

    The library is kept in the cache folder, by the content of the file and of all that it includes, the options, and
    the compilers: what has not changed is not compiled again, also in another process. ``nvcc`` is the one that the
    variable NVCC names, or of the PATH, of CUDA_HOME, or of the package ``nvidia-cuda-nvcc``.

    Args:
        file: The file, usually ``.cu``. A function that is called from outside is ``extern "C"``, takes the stream,
            pointers to device memory and numbers, enqueues its kernels on the stream, and returns without waiting.
        options: Options of nvcc, such as ``("-DTILE=32", "-std=c++17", "-use_fast_math")``. It compiles for the GPUs
            that JAX has here; an option that begins with ``-arch`` or ``-gencode`` names others. An option counts by
            its text: the content of a library that it links may change unnoticed.
        headers: Folders of the files that it includes, besides its own folder.

    Returns:
        The library, whose functions are attributes.

    Raises:
        CudaUnavailableError: There is no nvcc.
        KernelCompileError: nvcc refuses the file.
        SignatureError: The file does not exist, or an option names folders of headers.

    Example::

        # extern "C" int scale(cudaStream_t stream, const float *x, long n, float factor, float *out)
        library = cuda_library("kernels.cu", options=["-DTILE=32"], headers=["include"])
        scale = native_kernel(
            library.scale, lambda x: x, lambda x, out: (STREAM, x, x.size, np.float32(2), out),
            status=True, platform="cuda",
        )
    """
    given, folders = _texts("options", options), _texts("headers", headers)
    source = Path(*_texts("file", [file])).resolve()
    if not source.is_file():
        raise SignatureError(f"cuda_library got the file {os.fspath(file)!r}, which does not exist. Pass its path.")
    if named := [option for option in given if option.startswith(_FOLDERS)]:
        raise SignatureError(
            f"cuda_library got the option {named[0]!r}, but the files that it names count by their content. Pass their "
            "folders as headers=, and include them in the file."
        )
    if not any(option.startswith(("-arch", "--gpu-architecture", "-gencode", "--generate-code")) for option in given):
        given = (*given, *_architectures())
    nvcc = _nvcc()
    kept = cache_folder() if can_keep_files() else tempfile.mkdtemp()
    path = Path(kept, _FORMAT, f"{source.stem}-{_key(source, given, folders, nvcc)}.so")
    with contextlib.suppress(OSError):  # there is none, or it is damaged
        if is_own(path.stat()):
            return ctypes.CDLL(str(path))
    _compile(source, path, [nvcc, *given, *(f"-I{folder}" for folder in folders)])
    return ctypes.CDLL(str(path))


def _texts(what: str, given: Sequence[str | os.PathLike[str]]) -> tuple[str, ...]:
    listed = isinstance(given, Sequence) and not isinstance(given, str)
    if not listed or not all(isinstance(each, str | os.PathLike) and "\0" not in os.fspath(each) for each in given):
        raise SignatureError(f"cuda_library got {what}={given!r}, expected a list of strings without null bytes.")
    return tuple(os.fspath(each) for each in given)


def _architectures() -> tuple[str, ...]:
    """Options for the GPUs that JAX has here; none without one: nvcc then takes the oldest that it knows."""
    found = {d.compute_capability.replace(".", "") for d in jax.local_devices() if d.platform == "gpu"}
    return tuple(f"-gencode=arch=compute_{each},code=sm_{each}" for each in sorted(found))


def _nvcc() -> str:
    homes = os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"
    package = importlib.util.find_spec("nvidia")
    folders = (package and package.submodule_search_locations) or ()
    places = [
        os.environ.get("NVCC"),
        "nvcc",
        *(os.path.join(home, "bin", "nvcc") for home in homes if home),
        *(str(each) for folder in folders for each in sorted(Path(folder).glob("*/bin/nvcc"), reverse=True)),
    ]
    if (nvcc := next(filter(None, (shutil.which(each) for each in places if each)), None)) is None:
        raise CudaUnavailableError(
            "cuda_library compiles with nvcc, which is not on the PATH, in CUDA_HOME, or named by the variable NVCC. "
            "Install CUDA's toolkit, or: pip install nvidia-cuda-nvcc nvidia-cuda-crt nvidia-nvvm nvidia-cuda-cccl."
        )
    return nvcc


def _key(source: Path, options: Sequence[str], folders: Sequence[str], nvcc: str) -> str:
    """Identifies what the compiler makes."""
    text = source.read_bytes()
    # Where only the compiler can tell what this file includes, what it makes is for this process.
    digest = included_by(text.decode("latin-1"), [str(source.parent), *folders]) or os.urandom(16).hex()
    return hashlib.sha256(repr((text, digest, options, _versions(nvcc))).encode()).hexdigest()[:32]


@functools.cache
def _versions(nvcc: str) -> tuple[str, ...]:
    """The versions of nvcc, and of the compiler of the host code. Their own headers count by these."""
    host = os.environ.get("NVCC_CCBIN") or "c++"
    both = [[nvcc, "--version"], *([[host, "--version"]] if shutil.which(host) else [])]
    return tuple(subprocess.run(each, capture_output=True, text=True, check=False).stdout for each in both)


def _compile(source: Path, path: Path, command: Sequence[str]) -> None:
    """Writes the library so that other processes see all of it or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        made = Path(folder, path.name)
        line = [*command, "-shared", "-Xcompiler", "-fPIC", "-o", str(made), str(source)]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        if done.returncode:
            said = (done.stderr + done.stdout).strip().splitlines() or [f"exit status {done.returncode}"]
            error = next((each for each in said if re.search(r"\b(error|fatal)\b.*:", each)), said[0])
            raise KernelCompileError(f"nvcc cannot compile {source.name}: {error.strip()}. It ran: {' '.join(line)}")
        os.replace(made, path)
    delete_oldest(path)
