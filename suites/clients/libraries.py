"""The clients, by name. What follows a ``-`` in a name tells clients apart that share an environment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from suites.clients.client import Client, looped


def _ours(file: str) -> tuple[str, ...]:
    """Tests of ours, for a library that has none in its package, or none that call kernels."""
    return ("--assert=plain", str(Path(__file__).with_name(file)))


def _brainevent_calls() -> tuple[Callable[[], Any], Callable[[], Any]]:
    """A product of a fixed number of connections and a vector, compiled with each wrapper."""
    import brainevent._fcn.binary as operators
    import brainevent._op as own
    import jax
    import jax.numpy as jnp

    import bridge

    indices = jax.random.randint(jax.random.key(0), (64, 64), 0, 64)
    spikes = jnp.arange(64) % 3 == 0

    def compiled(wrapper: Any) -> Callable[[], Any]:
        operators.numba_kernel = wrapper

        def product(weights: Any, indices: Any, spikes: Any) -> Any:
            return operators.binary_fcnmv(weights, indices, spikes, shape=(64, 64), transpose=False, backend="numba")

        return looped(product, jnp.ones(1), indices, spikes)

    return compiled(own.numba_kernel), compiled(bridge.numba_kernel)


BRAINEVENT = Client(
    requirements=("brainevent==0.3.0", "brainstate==0.6.0", "braintools==0.4.0", "scipy"),
    python=12,
    edits={"brainevent._op": {r"from \.numba_ffi import numba_kernel": "from bridge import numba_kernel"}},
    tests=("-k", "numba", "--pyargs", "brainevent"),
    sample=40,
    calls=_brainevent_calls,
)
"""Sparse and event-driven products for brain models, whose kernels for the CPU are Numba's."""

OPERATORS = replace(
    BRAINEVENT,
    edits={
        "brainevent._op": {
            **BRAINEVENT.edits["brainevent._op"],
            r"from \.main import XLACustomKernel, KernelEntry": (
                "from bridge.adapters.brainevent import XLACustomKernel; from .main import KernelEntry"
            ),
        }
    },
    tests=("-k", "numba", "--pyargs", "brainevent._dense.binary_test", "brainevent._fcn.binary_test"),
    sample=12,
)
"""The same library: the operators that hold its kernels are the bridge's too."""


def _warp_calls() -> tuple[Callable[[], Any], Callable[[], Any]]:
    """A kernel on 1024 numbers, compiled with each wrapper."""
    import jax.numpy as jnp
    import warp as wp
    import warp.tests.interop.test_jax as own

    import bridge

    a = jnp.ones(1024, jnp.float32)

    def compiled(wrapper: Callable[..., Any]) -> Callable[[], Any]:
        return looped(lambda a, b: wrapper(own.add_kernel)(a, b)[0], a, a)

    return compiled(wp.jax_kernel), compiled(bridge.jax_kernel)


WARP = Client(
    requirements=("warp-lang==1.19.0",),
    edits={
        "warp.tests.interop.test_jax": {
            "import warp as wp": (
                "import bridge, warp as wp; wp.jax_kernel, wp.jax_callable = bridge.jax_kernel, bridge.warp_callable"
            )
        }
    },
    tests=("--assert=plain", "--pyargs", "warp.tests.interop.test_jax::TestJax"),
    different={
        "test_ffi_jax_callable_cpu_graph_modes": "every graph mode runs on the CPU, where there are no graphs",
        "test_ffi_jax_callable_graph_cache": "XLA owns the graphs",
        "test_ffi_jax_cuda_requires_cuda_support": "it changes a flag inside of Warp, which has CUDA support",
        "test_ffi_jax_kernel_output_dims_autodiff_still_blocked": "output_dims works with enable_backward=True",
        "test_ffi_jax_kernel_validates_all_target_block_dims_during_tracing": "it looks for calls inside of Warp",
        "test_ffi_jax_module_load_failure": "a kernel is loaded from a module of its own, and not from Warp's",
    },
    calls=_warp_calls,
)
"""Its own tests of jax_kernel and jax_callable."""

NVALCHEMI = Client(
    requirements=("nvalchemi-toolkit-ops==0.5.0", "warp-lang==1.19.0"),
    edits={
        "nvalchemiops.jax.segment_ops": {
            "from warp import jax_callable as (.*)": r"from bridge import warp_callable as \2"
        }
    },
    tests=_ours("nvalchemi_calls.py"),
)
"""Functions for molecules, from NVIDIA."""

_JARP = {
    r"import warp\.jax_experimental": "import bridge",
    r"from warp\._src\.jax_experimental\.ffi import ModulePreloadMode": "type ModulePreloadMode = Any",
    r"from warp\._src\.jax_experimental\.ffi import Ffi.*": "",
    r"jtu\.register_static\(.*": "",
}
"""Lines of both modules; Warp has not had some of the names since 1.14."""

JARP = Client(
    requirements=("jarp==0.1.9", "warp-lang==1.19.0"),
    python=12,
    edits={
        "jarp.warp._jax_kernel": {**_JARP, r"(.*)warp\.jax_experimental\.jax_kernel\((.*)": r"\2bridge.jax_kernel(\3"},
        "jarp.warp._jax_callable": {
            **_JARP,
            r"(.*)warp\.jax_experimental\.jax_callable\((.*)": r"\2bridge.warp_callable(\3",
            r"from warp\.jax_experimental import GraphMode": "type GraphMode = Any",
        },
    },
    tests=_ours("jarp_calls.py"),
)
"""Trees, loops and Warp for JAX; it picks the overload of a Warp kernel by the dtypes of a call."""

MJX = Client(
    requirements=("mujoco==3.17.0", "mujoco-mjx==3.17.0", "warp-lang==1.19.0"),
    edits={
        "mujoco.mjx.warp.ffi": {
            r"my_callable = wp\.jax_callable\(": "import bridge; my_callable = bridge.warp_callable("
        }
    },
    tests=_ours("mjx_calls.py"),
)
"""MuJoCo's simulator in JAX, with its Warp backend: bodies in contact."""

CLIENTS = {
    "brainevent": BRAINEVENT,
    "brainevent-operators": OPERATORS,
    "warp": WARP,
    "nvalchemi": NVALCHEMI,
    "jarp": JARP,
    "mjx": MJX,
}
