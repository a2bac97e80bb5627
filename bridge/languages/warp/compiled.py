"""Identifies the machine code that Warp makes from a kernel, and says whether Warp makes an adjoint."""

from __future__ import annotations

import warp as wp

from bridge.languages.warp.generated import generated


def has_adjoint(kernel: wp.Kernel) -> bool:
    """Whether Warp generates the adjoint of a kernel."""
    options = {**kernel.module.options, **kernel.options}
    return bool(options.get("enable_backward", True))


def digest_of(kernel: wp.Kernel, platform: str, block_dim: int | None) -> str:
    """The identity of the machine code of a kernel, see :class:`~bridge.languages.warp.generated.Generated`.

    Raises:
        KernelCompileError: Warp cannot generate code, or cannot evaluate a value that the kernel refers to.
    """
    return generated(kernel, platform, block_dim).digest
