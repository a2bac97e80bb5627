"""Calls the functions of nvalchemi's segment_ops; each result is compared with jnp's."""

from __future__ import annotations

import importlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

COUNT, SEGMENTS = 1000, 50
RANDOM = np.random.default_rng(0)
X, V, W = (jnp.asarray(RANDOM.normal(size=(COUNT, *inner)), jnp.float32) for inner in ((), (3,), (3,)))
SCALES, MATRICES = (jnp.asarray(RANDOM.normal(size=(SEGMENTS, *inner)), jnp.float32) for inner in ((), (3, 3)))
AT = jnp.sort(jnp.asarray(RANDOM.integers(0, SEGMENTS, COUNT), jnp.int32))


def total(x: jax.Array) -> jax.Array:
    """Sums by segments."""
    return jax.ops.segment_sum(x, AT, SEGMENTS)


SIZES = total(jnp.ones(COUNT))
CASES: dict[str, tuple[tuple[jax.Array, ...], Any]] = {
    "segmented_sum": ((X,), total),
    "segmented_mean": ((X,), lambda x: total(x) / SIZES),
    "segmented_dot": ((V, W), lambda v, w: total((v * w).sum(1))),
    "segmented_mul": ((V, SCALES), lambda v, scales: v * scales[AT][:, None]),
    "segmented_matvec": ((V, MATRICES), lambda v, m: jnp.einsum("nji,nj->ni", m[AT], v)),
    "segmented_rms_norm": ((V,), lambda v: jnp.sqrt(total((v * v).sum(1)) / SIZES)),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("gradient", [False, True])
def test_segments(name: str, gradient: bool) -> None:
    """A function, or its gradient."""
    segment_ops = importlib.import_module("nvalchemiops.jax.segment_ops")
    arrays, expected = CASES[name]

    def ours(*arrays: jax.Array) -> jax.Array:
        return getattr(segment_ops, name)(*arrays, AT, SEGMENTS)  # type: ignore[no-any-return]

    if gradient:
        ours, expected = (jax.grad(lambda *arrays, f=f: (f(*arrays) ** 2).sum()) for f in (ours, expected))
    np.testing.assert_allclose(ours(*arrays), expected(*arrays), rtol=1e-3, atol=1e-4)
