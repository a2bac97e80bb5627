"""Describes the machine, its settings and the code, for the header of a run.

The id of the operating system tells two machines of one model apart. In a container this id is not visible. There the
id changes when the machine restarts.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import jax
import numba

from reports import Device, Host, Run, Source, new_run_id
from suites.backends import BACKENDS
from suites.cells import catalogue
from suites.cells.selection import Selection, part_text
from suites.timing import gpu


def usable_cores() -> list[int]:
    """Returns the cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def memory_bytes() -> int:
    """Returns the size of the machine's memory."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


VARIABLE = "KERNEL_BRIDGE_MACHINE"
"""Environment variable with a name for the machine. It replaces the id where none can be read, or a new one is made for
each container or job."""

_MACHINE_ID, _BOOT_ID = "etc/machine-id", "proc/sys/kernel/random/boot_id"
_ROOT = Path("/")
_CONTAINER = (".dockerenv", "run/.containerenv", "run/systemd/container")


def machine_identity(cpu: str, cores: int, memory_bytes: int) -> str | None:
    """Returns a digest of the machine's id, CPU, cores, memory, operating system and its release; None without an id.

    The digest does not reveal the id.

    Args:
        cpu: Model of the CPU.
        cores: Number of cores.
        memory_bytes: Size of the memory; its GiB count, because the kernel reserves a little more or less of it.
    """
    own = machine_id()
    if own is None:
        return None
    memory_gib = round(memory_bytes / (1 << 30))
    facts = ("kernel-bridge machine", own, cpu, cores, memory_gib, platform.system(), platform.release())
    return hashlib.sha256("\0".join(map(str, facts)).encode()).hexdigest()[:16]


def machine_id(root: Path = _ROOT, variables: Mapping[str, str] | None = None) -> str | None:
    """Returns an id that tells this machine from others of its model; None if there is none.

    In a container ``/etc/machine-id`` comes from the image, so there the boot id of the system kernel counts.

    Args:
        root: The root of the file system.
        variables: Environment variables; by default those of this process.
    """
    variables = os.environ if variables is None else variables
    in_container = "container" in variables or any((root / name).exists() for name in _CONTAINER)
    # Kubernetes leaves no file; the root of its containers lies on an image.
    in_container = in_container or "overlay / overlay" in _text(root / "proc/self/mounts")
    ids = [variables.get(VARIABLE, ""), "" if in_container else _text(root / _MACHINE_ID), _text(root / _BOOT_ID)]
    return next((text.strip() for text in ids if text.strip() not in ("", "uninitialized")), None)


def _text(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text(errors="replace")
    return ""


_SECONDS = 10


def source(files: Sequence[Path]) -> Source:
    """Returns the commit of the first repository to which one of these files belongs; unknown if there is none.

    A file belongs to the repository that tracks it. A new file belongs to the repository around it. Installed and
    ignored files belong to none: an environment may lie in a folder of another project.

    This starts git, so call it before any kernel runs: a process that has used OpenMP must not fork.

    Args:
        files: The files of the operators.
    """
    digest = code_digest()
    for file in files:
        repository = _commit(Path(os.path.realpath(file)))
        if repository is not None:
            commit, dirty, project = repository
            return Source(commit=commit, dirty=dirty, project=project, digest=digest)
    return Source(digest=digest)


def _commit(file: Path) -> tuple[str, bool | None, str] | None:
    """Returns the commit of the repository that a file belongs to, whether there are changes, and its name."""
    is_tracked = _git(file.parent, "ls-files", "--error-unmatch", file.name) is not None
    is_ignored = _git(file.parent, "check-ignore", "--quiet", file.name) is not None
    installed = [os.path.realpath(sysconfig.get_path(name)) for name in ("purelib", "platlib", "stdlib")]
    if not is_tracked and (is_ignored or _is_in(file, installed)):
        return None
    commit = _git(file.parent, "rev-parse", "--verify", "HEAD")
    if not commit:
        return None  # no repository, or one without commits
    status = _git(file.parent, "status", "--porcelain")
    root = Path(_git(file.parent, "rev-parse", "--show-toplevel") or file.parent)
    return commit, None if status is None else bool(status), _project(root)


def _project(root: Path) -> str:
    """Returns the name of a project: as its pyproject.toml says, else that of its folder."""
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
        return str(tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["name"])
    return root.name


def _git(folder: Path, *arguments: str) -> str | None:
    """Returns the output of git; None if it fails."""
    # In a hook, git sets variables that name the hook's repository.
    variables = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    # A checkout that is mounted into a container belongs to another user.
    command = ["git", "-c", "safe.directory=*", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=_SECONDS, env=variables)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


_PROJECT = Path(__file__).parents[2]
_PACKAGES = ("bridge", "reports", "suites")
_SUFFIXES = {".py", ".cc", ".cu", ".h", ".ini"}
_NOT_RUN = ("unit", "tutorials", "published", "__pycache__")


def code_digest() -> str:
    """Returns the SHA-256 of the files of this project, of the operators and checks in use, and of their imports.

    Modules of Python itself and of installed packages do not count: the header of a run has their versions.
    """
    digest = hashlib.sha256()
    users = {path.resolve() for path in [*catalogue.files(), *_users_modules()]}
    for path in [*sorted(_own_files()), *sorted(users)]:
        name = path.relative_to(_PROJECT) if path.is_relative_to(_PROJECT) else path.name
        digest.update(f"{name}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _own_files() -> Iterator[Path]:
    for package in _PACKAGES:
        for path in (_PROJECT / package).rglob("*"):
            if path.suffix in _SUFFIXES and not set(_NOT_RUN) & set(path.relative_to(_PROJECT).parts):
                yield path


def _users_modules() -> Iterator[Path]:
    """Yields the files of imported modules that are neither this project's, nor Python's, nor installed."""
    installed = {Path(path).resolve() for path in sysconfig.get_paths().values()}
    installed |= {Path(prefix).resolve() for prefix in (sys.prefix, sys.base_prefix)}
    # `pip install --target FOLDER` with PYTHONPATH=FOLDER, as computing centres do.
    installed |= {Path(folder).resolve() for folder in sys.path if any(Path(folder).glob("*.dist-info"))}
    own = [_PROJECT / package for package in _PACKAGES]
    for module in list(sys.modules.values()):
        # A module may compute its attributes, and fail.
        file = module.__dict__.get("__file__") if hasattr(module, "__dict__") else None
        path = Path(file).resolve() if isinstance(file, str) else None
        if path is None or path.suffix != ".py" or not path.is_file() or path.name == "conftest.py":
            continue
        if not _is_in(path, [*installed, *own]):
            yield path


def _is_in(path: Path, folders: Iterable[Path | str]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)


_LIBRARIES = (
    "kernel-bridge", "jax", "jaxlib", "numba", "numba-cuda", "numba-cuda-mlir", "warp-lang", "triton", "cuda-tile",
    "jax-triton", "nvidia-cutlass-dsl", "jax-tvm-ffi", "llvmlite", "numpy", "cupti-python", "nvidia-ml-py",
)  # fmt: skip
_VARIABLES = ("JAX_ENABLE_X64", "JAX_DISABLE_JIT", "JAX_DEBUG_NANS", "KERNEL_BRIDGE_BACKEND", "KERNEL_BRIDGE_DEBUG")
_NOT_CODE = ("NUMBA_CACHE_DIR", "NUMBA_NUM_THREADS")  # the header has the number of threads


def header(selection: Selection, profile: str) -> Run:
    """Returns the header of a new run.

    Args:
        selection: The cells that are checked or timed. The header names the commit of its operators.
        profile: Name of the profile, as recorded.

    Raises:
        RuntimeError: JAX has no such device.
    """
    platform_ = selection.device
    device = jax.devices(platform_)[0]
    return Run(
        run_id=new_run_id(),
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        profile=profile,
        source=source(catalogue.files() or [Path(__file__)]),
        host=_host(),
        device=Device(
            platform=platform_,  # type: ignore[arg-type]
            kind=_cpu_name() if platform_ == "cpu" else device.device_kind,
            ordinal=device.id,
            **({} if platform_ == "cpu" else gpu.facts(device.local_hardware_id)),
        ),
        versions={name: version for name in _LIBRARIES if (version := _version(name))},
        flags={
            "XLA_FLAGS": os.environ.get("XLA_FLAGS"),
            "matmul_precision": getattr(jax.config, "jax_default_matmul_precision", None),
            "OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY"),
            "malloc_keeps_pages": False,
        }
        | {name: value for name, value in sorted(os.environ.items()) if _changes_code(name)},
        selection=selection.by_option(),
        peers=_peers(platform_) if selection.peers else {},
        part=part_text(selection.part) if selection.part else None,
    )


def _peers(platform_: str) -> dict[str, str]:
    """The libraries that have functions for a platform, by backend."""
    return {
        backend.id: backend.library.description()
        for backend in BACKENDS.values()
        if backend.library is not None and platform_ in backend.platforms
    }


def _host() -> Host:
    usable = usable_cores()
    cpu, cores, memory = _cpu_name(), os.cpu_count() or len(usable), memory_bytes()
    return Host(
        cpu=cpu,
        cores=cores,
        affinity=usable,
        # XLA:CPU sizes its pool by the cores that the process may use.
        threads={"numba": numba.get_num_threads(), "xla": len(usable)},
        os=f"{platform.system()} {platform.release()}",
        load=machine_load(),
        memory_bytes=memory,
        machine=machine_identity(cpu, cores, memory),
    )


def machine_load() -> float | None:
    """Returns the mean number of busy processes over the last minute; None if the system does not tell."""
    with contextlib.suppress(AttributeError, OSError):
        return os.getloadavg()[0]
    return None


def _changes_code(variable: str) -> bool:
    """Tells whether an environment variable changes the compiled code, the calls or the checks."""
    return variable in _VARIABLES or (variable.startswith("NUMBA_") and variable not in _NOT_CODE)


def _cpu_name() -> str:
    lines = _text(Path("/proc/cpuinfo")).splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _version(name: str) -> str | None:
    with contextlib.suppress(metadata.PackageNotFoundError):
        return metadata.version(name)
    return None
