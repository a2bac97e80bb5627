"""Describes Warp as a native language. Warp itself is imported when the first kernel is compiled or identified."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any

from bridge.errors import BridgeError
from bridge.ffi.kernel_call import available
from bridge.languages.compiled_kernel import Compiled
from bridge.languages.definitions import DEFINITIONS
from bridge.languages.extras import require_warp
from bridge.languages.language import Standing
from bridge.languages.native_language import Definition, NativeLanguage
from bridge.languages.warp.launch_spec import Spec
from bridge.languages.warp.thread_counts import in_place_pairs_of
from bridge.signature.array_types import Signature
from bridge.source.meanings import Meanings


@dataclass(frozen=True, eq=False)
class WarpDefinition(Definition):
    """A kernel that is decorated with ``warp.kernel``; it may be generic.

    Attributes:
        kernel: The kernel.
    """

    kernel: Any = field(repr=False)


def define(kernel: Any) -> WarpDefinition:
    """The definition of a kernel, which lives as long as the kernel."""
    known: WarpDefinition | None = vars(kernel).get("_bridge_definition")
    if known is None or known.kernel is not kernel:
        known = DEFINITIONS.define(
            LANGUAGE, id(kernel), lambda: WarpDefinition(kernel.key, kernel.func, kernel.func, kernel)
        )
        kernel._bridge_definition = known
    return known


class _Warp(NativeLanguage[WarpDefinition, Spec]):
    def compile(self, definition: WarpDefinition, options: Spec, signature: Signature, platform: str) -> Compiled:
        from bridge.languages.warp.cpu_plan import build_host
        from bridge.languages.warp.cuda_plan import build_device
        from bridge.languages.warp.generated import generated
        from bridge.languages.warp.instances import instance_for

        before = Meanings.of(definition.kernel.func)
        made = generated(instance_for(definition.kernel, options), platform, options.block_dim)
        meanings = before.agreeing(Meanings.of(definition.kernel.func))  # those in the generated code
        in_place = in_place_pairs_of(meanings, options, len(signature.inputs))
        build = build_host if platform == "cpu" else build_device
        if not available(platform):  # another machine loads it
            return Compiled(made.digest, lambda: build(made, options, signature), in_place=in_place)
        # Loaded now, because Warp generates the code once more when it loads, and what the code refers to may change.
        built = build(made, options, signature)
        return Compiled(made.digest, lambda: built, in_place=in_place)

    def settings(self, definition: WarpDefinition) -> tuple[str, ...]:
        from bridge.languages.warp.settings import settings_of

        return settings_of(definition.kernel)

    def derivative_advice(self, definition: WarpDefinition, options: Spec) -> str:
        attach = "To attach one, call it in a function that is decorated with jax.custom_vjp, with rules by defvjp."
        if options.backward:
            return f"Warp generates the adjoint of a kernel, but none of an adjoint. {attach}"
        return (
            "Warp generates its adjoint, unless enable_backward is False where the kernel is defined or wrapped, "
            f"has_side_effect is True, or its inputs or outputs are all integers. {attach}"
        )


LANGUAGE = _Warp(
    "warp",
    {"cpu": Standing.ONE_THREAD, "cuda": Standing.REGULAR},
    require=require_warp,
    kernel_kind="Warp kernel",
    wrapper="jax_kernel",
    compiler="Warp",
    options_type=Spec,
    compiles_when_traced=False,
)


def digest_if_kernel(value: Any) -> str | None:
    """The digest of a Warp kernel for the CPU; None for anything else, and for a kernel that Warp cannot read."""
    imported = sys.modules.get("warp")  # a kernel exists only if Warp is imported
    if imported is None or not isinstance(value, imported.Kernel):
        return None
    from bridge.languages.warp.compiled import digest_of

    try:
        return digest_of(value, "cpu", None)
    except BridgeError:
        return None
