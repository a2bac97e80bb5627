"""Asks the installed Warp whether the bridge understands it, and for the settings that a kernel is compiled with."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable
from typing import Any

import warp as wp

from bridge.errors import AbiError
from bridge.languages.sent_by_name import sent_by_name

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
    if platform == "cpu":  # before 1.19 Warp has blocks of one thread there
        return block_dim if block_dim and getattr(wp.config, "enable_cpu_blocks", False) else 1
    return _CUDA_BLOCK if block_dim is None else block_dim


_CUDA_BLOCK = 256  # Warp's default


OLDEST = (1, 13)
"""The first version whose C entries take the address of the bounds. The gradients of in/out arguments need it too: from
this version on, a store clears the adjoint of the element that it overwrites."""


@functools.cache
def check_warp() -> None:
    """Checks that the installed Warp records launches in the form that the bridge reads, and lets pickle take kernels.

    Raises:
        AbiError: It records them in another form.
    """
    if tuple(int(part) for part in wp.__version__.split(".")[:2]) < OLDEST:
        raise unknown_launches("it passes the bounds of a launch on the CPU by value")
    internals()
    sent_by_name(wp.Kernel, lambda kernel: kernel.func, has_content=True)


def internals() -> Any:
    """The part of Warp that generates code. Warp does not export it, so :func:`check_warp` looks at it.

    Raises:
        AbiError: There is no such part.
    """
    try:
        return wp._src.context
    except AttributeError as error:
        raise unknown_launches("it generates code in another place") from error


def unknown_launches(what: str) -> AbiError:
    """The error for a version of Warp that is not understood."""
    return AbiError(
        f"bridge does not understand the launches of Warp {wp.__version__}: {what}. Install a version of warp-lang "
        "that this release of kernel-bridge supports, or use Warp's own warp.jax_kernel."
    )
