"""Asks the installed Warp whether the bridge understands it, and for the settings that a kernel is compiled with."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable
from typing import Any

import warp as wp

from bridge.compat.warp import internals
from bridge.kernel.sent_by_name import sent_by_name

_WITHOUT_EFFECT = frozenset({
    # What Warp prints, checks at its own launches, and where it keeps files.
    "verbose", "verbose_warnings", "quiet", "log_level", "print_launches", "verify_cuda", "cache_kernels",
    "kernel_cache_dir",
    # How Warp compiles, and not what.
    "compile_time_trace", "line_directives", "strip_hash", "use_precompiled_headers",
    # The options of a module have the block of the latest launch.
    "block_dim",
})  # fmt: skip
"""The settings that change no machine code. Any other counts, also one of a later Warp."""

_NAMES = tuple(
    sorted(
        name
        for name, value in vars(wp.config).items()
        if not (name.startswith("_") or name in _WITHOUT_EFFECT or inspect.ismodule(value) or callable(value))
    )
)

configured: Callable[[], tuple[Any, ...]] = functools.partial(operator.itemgetter(*_NAMES), vars(wp.config))
"""Returns the values of the settings in ``warp.config`` that count. Each eager call asks, so this has to take less than
a microsecond."""


def settings_of(kernel: wp.Kernel) -> tuple[str, ...]:
    """The settings that Warp compiles a kernel with, as text: of ``warp.config``, of its module, and its own."""
    module = kernel.module.resolve_options(wp.config)
    scopes = (dict(zip(_NAMES, configured(), strict=True)), module, kernel.options)
    return tuple(
        f"{name} = {scope[name]!r}" for scope in scopes for name in sorted(scope) if name not in _WITHOUT_EFFECT
    )


def block_dim_on(platform: str, block_dim: int | None) -> int:
    """The threads of a block that the bridge launches where ``block_dim`` of them are asked for."""
    if platform == "cpu":
        return block_dim if block_dim and wp.config.enable_cpu_blocks else 1
    return 256 if block_dim is None else block_dim  # Warp's default


@functools.cache
def check_warp() -> None:
    """Checks that the bridge understands the installed Warp, and lets pickle take kernels.

    Raises:
        AbiError: It is another one than those that the bridge knows.
    """
    internals()
    sent_by_name(wp.Kernel, lambda kernel: kernel.func, has_content=True)
