"""Reads the settings of Warp that change the machine code of a kernel."""

from __future__ import annotations

import functools
import hashlib
import inspect
import operator
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import warp as wp

_HOW_IT_COMPILES = frozenset({"compile_time_trace", "line_directives", "strip_hash", "use_precompiled_headers"})
"""Options of a module that change how Warp compiles, and not the machine code that it makes."""

_WITHOUT_EFFECT = _HOW_IT_COMPILES | frozenset({
    # What Warp prints, and how it keeps files.
    "verbose", "verbose_warnings", "quiet", "log_level", "print_launches", "cache_kernels", "kernel_cache_dir",
    "load_module_max_workers", "deterministic_debug",
    # What Warp does around its own launches and arrays.
    "verify_cuda", "verify_autograd_array_access", "launch_array_access_mode", "track_memory",
    "enable_mempools_at_init", "enable_graph_capture_module_load_by_default",
    # What Warp copies into the options of a module when it makes the module.
    "max_unroll", "enable_backward", "lineinfo", "deterministic", "deterministic_max_records",
    # A constant.
    "version",
})  # fmt: skip
"""The settings in ``warp.config`` that change no machine code. Any other may change it, also one of a later Warp."""

_NAMES = tuple(
    sorted(
        name
        for name, value in vars(wp.config).items()
        if not (name.startswith("_") or name in _WITHOUT_EFFECT or inspect.ismodule(value) or callable(value))
    )
)

configured: Callable[[], tuple[Any, ...]] = functools.partial(operator.itemgetter(*_NAMES), vars(wp.config))
"""Returns the values of the settings in ``warp.config`` that may change machine code. Each eager call asks, so this has
to take less than a microsecond."""


def settings_of(kernel: wp.Kernel) -> tuple[str, ...]:
    """The settings that Warp compiles a kernel with, as text: of ``warp.config``, of its module, and its own.

    ``block_dim`` is left out: in the options of a module it belongs to the latest launch.
    """
    module = kernel.module.resolve_options(wp.config)
    scopes = {
        "config": dict(zip(_NAMES, configured(), strict=True)),
        "module": {name: value for name, value in module.items() if name not in _HOW_IT_COMPILES},
        "kernel": kernel.options,
    }
    settings = [
        f"{scope}.{name} = {options[name]!r}"
        for scope, options in scopes.items()
        for name in sorted(options)
        if name != "block_dim"
    ]
    return (
        *settings,
        *_headers([*module.get("extra_cpu_include_dirs", ()), *module.get("extra_cuda_include_dirs", ())]),
    )


def _headers(folders: Sequence[str]) -> list[str]:
    """The files in the folders that a kernel may include files from, with their contents."""
    files = [path for folder in folders for path in sorted(Path(folder).rglob("*")) if path.is_file()]
    return [f"{path} = {hashlib.sha256(path.read_bytes()).hexdigest()}" for path in files]


def cooperates() -> bool:
    """Whether Warp runs the threads of a block together on the CPU, which it can since 1.19."""
    return bool(getattr(wp.config, "enable_cpu_blocks", False))


def block_dim_on(platform: str, block_dim: int | None) -> int:
    """The threads of a block that Warp launches where ``block_dim`` of them are asked for."""
    if platform == "cpu":
        return block_dim if block_dim is not None and cooperates() else 1
    return _CUDA_BLOCK if block_dim is None else block_dim


_CUDA_BLOCK = 256  # Warp's default
