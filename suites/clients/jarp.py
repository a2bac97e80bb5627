"""jarp: trees, loops and Warp for JAX; it picks the overload of a Warp kernel by the dtypes of a call.

Its own tests stand in for Warp, so ours call it. It imports names that Warp has not had since 1.14.
"""

from __future__ import annotations

from pathlib import Path

from suites.clients.client import Client, Edit


def _edits(module: str, own: str, ours: str) -> tuple[Edit, ...]:
    ffi = r"from warp\._src\.jax_experimental\.ffi import"
    return (
        Edit(module, r"import warp\.jax_experimental", "import bridge"),
        Edit(module, f"{ffi} ModulePreloadMode", "type ModulePreloadMode = Any"),
        Edit(module, f"{ffi} Ffi.*", ""),
        Edit(module, rf"(.*)warp\.jax_experimental\.{own}\((.*)", rf"\g<2>bridge.{ours}(\g<3>"),
        Edit(module, r"jtu\.register_static\(.*", ""),
    )


CLIENT = Client(
    requirements=("jarp==0.1.9", "warp-lang==1.19.0"),
    python=12,
    edits=(
        *_edits("jarp.warp._jax_kernel", "jax_kernel", "jax_kernel"),
        *_edits("jarp.warp._jax_callable", "jax_callable", "warp_callable"),
        Edit("jarp.warp._jax_callable", r"from warp\.jax_experimental import GraphMode", "type GraphMode = Any"),
    ),
    tests=("--assert=plain", str(Path(__file__).with_name("jarp_calls.py"))),
)
