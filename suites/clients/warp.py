"""NVIDIA Warp: its own tests of jax_kernel and jax_callable, with ours in their place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from suites.clients.client import Client, Edit, looped

TESTS = "warp.tests.interop.test_jax"


def calls() -> tuple[Callable[[], Any], Callable[[], Any]]:
    """A kernel on 1024 numbers, compiled with each wrapper."""
    import jax.numpy as jnp
    import warp as wp
    import warp.tests.interop.test_jax as own

    import bridge

    a = jnp.ones(1024, jnp.float32)

    def compiled(wrapper: Callable[..., Any]) -> Callable[[], Any]:
        return looped(lambda a, b: wrapper(own.add_kernel)(a, b)[0], a, a)

    return compiled(wp.jax_kernel), compiled(bridge.jax_kernel)


def on_both(name: str) -> list[str]:
    """The tests of a name on the CPU and on a GPU."""
    return [f"test_ffi_jax_kernel_{name}_{device}" for device in ("cpu", "cuda_0")]


CLIENT = Client(
    requirements=("warp-lang==1.19.0",),
    edits=(
        Edit(
            TESTS,
            "import warp as wp",
            "import bridge, warp as wp; wp.jax_kernel, wp.jax_callable = bridge.jax_kernel, bridge.warp_callable",
        ),
    ),
    tests=("--assert=plain", "--pyargs", f"{TESTS}::TestJax"),
    different={
        "test_ffi_jax_callable_cpu_graph_modes": "every graph mode runs on the CPU, where there are no graphs",
        "test_ffi_jax_callable_graph_cache_cuda_0": "XLA owns the graphs",
        "test_ffi_jax_cuda_requires_cuda_support_cuda_0": "it changes a flag inside of Warp, which has CUDA support",
        **dict.fromkeys(on_both("output_dims_autodiff_still_blocked"), "output_dims works with enable_backward=True"),
        **dict.fromkeys(on_both("validates_all_target_block_dims_during_tracing"), "it looks for calls inside of Warp"),
        "test_ffi_jax_module_load_failure": "a kernel is loaded from a module of its own, and not from Warp's",
    },
    calls=calls,
)
