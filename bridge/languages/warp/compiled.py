"""Identifies the machine code that Warp makes from a kernel, and says whether Warp makes an adjoint."""

from __future__ import annotations

import hashlib

import warp as wp

from bridge.errors import AbiError
from bridge.languages.warp.dtypes import LOCK
from bridge.languages.warp.instances import restore, withdraw
from bridge.languages.warp.packing import captured_by, failed

_CUDA_BLOCK = 256  # Warp's default


def has_adjoint(kernel: wp.Kernel) -> bool:
    """Whether Warp generates the adjoint of a kernel."""
    options = {**kernel.module.options, **kernel.options}
    return bool(options.get("enable_backward", True))


def digest_of(kernel: wp.Kernel, platform: str, block_dim: int | None) -> str:
    """The identity of a kernel by content, from Warp's own hash of its code and the options it is compiled with.

    Raises:
        KernelCompileError: Warp cannot evaluate a value that the kernel refers to.
        AbiError: Warp has no such hash.
    """
    if block_dim is None:
        block_dim = 1 if platform == "cpu" else _CUDA_BLOCK
    with LOCK:
        wp.init()
        restore(kernel)
        try:
            kernel.module.get_module_hash(block_dim)
        except Exception as error:
            withdraw(kernel)
            if (captured := captured_by(kernel, error)) is not None:
                raise captured from None
            raise failed(kernel, f"{type(error).__name__}: {error}") from error
        content = kernel.hash
    if not isinstance(content, bytes):
        raise AbiError(f"Warp {wp.__version__} gives no hash of the kernel {kernel.key}. Use its own warp.jax_kernel.")
    options = {**kernel.module.options, **kernel.options}
    options.pop("block_dim", None)  # it belongs to the module's latest compilation
    compiled = [sorted(map(repr, options.items())), wp.config.mode, wp.config.verify_fp]
    return hashlib.sha256(content + repr(compiled).encode()).hexdigest()
