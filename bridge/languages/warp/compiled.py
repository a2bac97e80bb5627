"""A Warp kernel for the types of one call: its description, the same in every process, and its compiled entry."""

from __future__ import annotations

import functools
import hashlib
import weakref
from dataclasses import dataclass

import msgspec
import warp as wp

from bridge.errors import AbiError
from bridge.ffi.target import CPU, CUDA, Entry, Target
from bridge.languages.warp.cpu_plan import build_host
from bridge.languages.warp.cuda_plan import build_device
from bridge.languages.warp.dtypes import LOCK
from bridge.languages.warp.packing import Spec, captured_by, failed
from bridge.languages.warp.parameters import instantiated, restore, withdraw
from bridge.source.content import undefined_kernel

_LANGUAGE = "warp"
_TARGETS = {target.platform: target for target in (CPU, CUDA)}
_CUDA_BLOCK = 256  # Warp's default


class _Described(msgspec.Struct, frozen=True):
    """What a description says after the name of the kernel: its content and its launch."""

    digest: str
    spec: Spec


@dataclass(frozen=True)
class WarpCode:
    """A kernel and its launch: a :class:`bridge.ffi.kernel_call.Code`.

    Attributes:
        kernel: Not generic.
        spec: The launch.
    """

    kernel: wp.Kernel
    spec: Spec

    platforms = ("cpu", "cuda")
    scratch = ()

    @property
    def derivative_advice(self) -> str:
        attach = "To attach one, call it in a function that is decorated with jax.custom_vjp, with rules by defvjp."
        if self.spec.backward:
            return f"Warp generates the adjoint of a kernel, but none of an adjoint. {attach}"
        return (
            "Warp generates its adjoint, unless enable_backward is False where the kernel is defined or wrapped, "
            f"has_side_effect is True, or its inputs or outputs are all integers. {attach}"
        )

    def describe(self, platform: str) -> tuple[Target, str]:
        """The target of the platform, and the launch as text that is the same in every process."""
        about = _Described(digest_of(self.kernel, platform, self.spec.block_dim), self.spec)
        return _TARGETS[platform], f"{_LANGUAGE}:{self.kernel.key} {msgspec.json.encode(about).decode()}"

    def entry(self, platform: str) -> Entry:
        """The kernel compiled and loaded, on each of JAX's local devices of the platform."""
        target, description = self.describe(platform)
        build = build_host if platform == "cpu" else build_device
        return target.publish(description, lambda: build(self.kernel, self.spec))


def has_adjoint(kernel: wp.Kernel) -> bool:
    """Whether Warp generates the adjoint of a kernel."""
    options = {**kernel.module.options, **kernel.options}
    return bool(options.get("enable_backward", True))


def digest_of(kernel: wp.Kernel, platform: str, block_dim: int | None) -> str:
    """The identity of a kernel by content, from Warp's own hash of its code and the options it is compiled with.

    Raises:
        KernelCompileError: Warp cannot evaluate what the kernel refers to.
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
    options.pop("block_dim", None)  # that of the module's latest compilation
    compiled = [sorted(map(repr, options.items())), wp.config.mode, wp.config.verify_fp]
    return hashlib.sha256(content + repr(compiled).encode()).hexdigest()


_wrapped: weakref.WeakSet[wp.Kernel] = weakref.WeakSet()


def remember(kernel: wp.Kernel) -> None:
    """Lets programs from other processes find a kernel that has been wrapped in this one."""
    _wrapped.add(kernel)


def _resolve(platform: str, description: str) -> Entry:
    """The entry for a call that another process described: its kernel must have been wrapped in this one."""
    head, _, text = description.partition(" ")
    name = head.partition(":")[2]
    about = msgspec.json.decode(text, type=_Described)
    types = [
        (None if argument.shape is None else len(argument.shape), argument.dtype, argument.inner)
        for argument in about.spec.arguments
    ]
    for kernel in list(_wrapped):
        if kernel.key == name and len(kernel.adj.args) == len(types):
            candidate = instantiated(kernel, types)
            if digest_of(candidate, platform, about.spec.block_dim) == about.digest:
                return WarpCode(candidate, about.spec).entry(platform)
    raise undefined_kernel("Warp kernel", name, about.digest, "jax_kernel")


for _platform, _target in _TARGETS.items():
    _target.resolve_with(_LANGUAGE, functools.partial(_resolve, _platform))
