"""brainevent: sparse and event-driven products for brain models, whose kernels for the CPU are Numba's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from suites.clients.client import Client, Edit, looped


def calls() -> tuple[Callable[[], Any], Callable[[], Any]]:
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


CLIENT = Client(
    requirements=("brainevent==0.3.0", "brainstate==0.6.0", "braintools==0.4.0", "scipy"),
    python=12,
    edits=(Edit("brainevent._op", r"from \.numba_ffi import numba_kernel", "from bridge import numba_kernel"),),
    tests=("-k", "numba", "--pyargs", "brainevent"),
    sample=40,
    calls=calls,
)

OPERATORS = replace(
    CLIENT,
    edits=(
        *CLIENT.edits,
        Edit(
            "brainevent._op",
            r"from \.main import XLACustomKernel, KernelEntry",
            "from bridge.adapters.brainevent import XLACustomKernel; from .main import KernelEntry",
        ),
    ),
    tests=("-k", "numba", "--pyargs", "brainevent._dense.binary_test", "brainevent._fcn.binary_test"),
    sample=12,
)
"""The same library: the operators that hold its kernels are the bridge's too."""
