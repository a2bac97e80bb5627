"""Writes beyond the end of an array on a GPU are noticed; elsewhere there is nothing to notice them with."""

import jax
import jax.numpy as jnp
import pytest

from suites.cells.marks import missing_device
from suites.checks.judging.canaries import MULTIPLE, WrittenBeyond, _bytes_at, set_canaries


def test_a_cpu_has_none():
    x = jnp.ones(3)
    canaries = set_canaries({"x": x}, jax.devices("cpu")[0])
    assert canaries.places == ()
    canaries.require_unchanged()


@pytest.mark.skipif(missing_device("cuda") is not None, reason=str(missing_device("cuda")))
def test_bytes_behind_an_array_are_watched_on_a_gpu():
    import numpy as np

    device = jax.devices("cuda")[0]
    x, full, empty = (jax.device_put(jnp.ones(size, jnp.float32), device) for size in (33, MULTIPLE, 0))
    canaries = set_canaries({"x": x.block_until_ready(), "full": full, "empty": empty}, device)
    ((name, address, count),) = canaries.places
    assert (name, count) == ("x", -33 * 4 % MULTIPLE)
    canaries.require_unchanged()
    _bytes_at(address + 4, 1).copy_to_device(np.zeros(1, np.uint8))
    with pytest.raises(WrittenBeyond, match=r"after the end of x: 1 of the 124 bytes .* the first 4 bytes"):
        canaries.require_unchanged()
