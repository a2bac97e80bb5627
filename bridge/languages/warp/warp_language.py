"""Describes Warp as a native language. Warp itself is imported when the first kernel is compiled or identified."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any

from bridge.ffi.kernel_call import available
from bridge.kernel.arguments import Signature
from bridge.kernel.definitions import DEFINITIONS
from bridge.kernel.language import Compiled, Definition, NativeLanguage
from bridge.languages.warp.launches import WarpLaunch
from bridge.table import LANGUAGES


@dataclass(frozen=True, eq=False)
class WarpDefinition(Definition):
    """A kernel that is decorated with ``warp.kernel``; it may be generic.

    Attributes:
        kernel: The kernel.
    """

    kernel: Any = field(repr=False)


def define(kernel: Any) -> WarpDefinition:
    """The definition of a kernel, which lives as long as the kernel."""
    known: WarpDefinition | None = vars(kernel).get("bridge_definition")
    if known is None or known.kernel is not kernel:
        known = DEFINITIONS.define(
            LANGUAGE, id(kernel), lambda: WarpDefinition(kernel.key, kernel.func, kernel.func, kernel)
        )
        vars(kernel)["bridge_definition"] = known
    return known


class _Warp(NativeLanguage[WarpDefinition, WarpLaunch]):
    def compile(self, definition: WarpDefinition, options: WarpLaunch, signature: Signature, platform: str) -> Compiled:
        from bridge.languages.warp.cpu_plan import build_host, carried_host
        from bridge.languages.warp.cuda_plan import build_device, carried_device
        from bridge.languages.warp.generated import check_inputs, generated, instantiated, takes_handle
        from bridge.languages.warp.wrapper_options import check_homes

        types = [(None if a.shape is None else len(a.shape), a.dtype, a.inner) for a in options.arguments]
        made = generated(instantiated(definition.kernel, types), platform, options.block_dim)
        check_inputs(made, options, signature)
        code = None if takes_handle(made) else made.digest
        build, carried = (build_host, carried_host) if platform == "cpu" else (build_device, carried_device)
        carry = functools.partial(carried, made, options, signature)
        check_homes(definition.name, [each.value for each in options.arguments], (), platform)
        if not available(platform):  # another machine loads it
            return Compiled(code, lambda: build(made, options, signature), carry=carry)
        # Loaded now, because Warp generates the code once more when it loads, and what the code refers to may change.
        built = build(made, options, signature)
        return Compiled(code, lambda: built, carry=carry)

    def settings(self, definition: WarpDefinition) -> tuple[str, ...]:
        from bridge.languages.warp.settings import settings_of

        return settings_of(definition.kernel)

    def derivative_advice(self, definition: WarpDefinition, options: WarpLaunch) -> str:
        return (
            "Warp generates the adjoint of a kernel (and none of an adjoint) unless enable_backward is False where the "
            "kernel is defined or wrapped, has_side_effect is True, or its inputs or outputs are all integers. "
            "To attach one, call it in a function that is decorated with jax.custom_vjp, with rules by defvjp."
        )


LANGUAGE = _Warp(
    LANGUAGES["warp"],
    kernel_kind="Warp kernel",
    compiler="Warp",
    options_type=WarpLaunch,
    compiles_when_traced=False,
    local_kernels="it uses a mesh, BVH, hash grid, volume or texture, which only this process has. Call it in the "
    "process that makes the object.",
)
