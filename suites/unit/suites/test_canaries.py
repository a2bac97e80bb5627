"""Writes beyond the end of an array on a GPU are noticed; elsewhere there is nothing to notice them with."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from suites.cells.grid import missing_device
from suites.checks.judging.memory import MULTIPLE, WrittenBeyond, _behind, filled_gpu_memory

PROGRAM = jax.jit(lambda x: x)


@pytest.mark.skipif(missing_device("cuda") is not None, reason=str(missing_device("cuda")))
def test_bytes_behind_an_array_are_watched_on_a_gpu():
    device = jax.devices("cuda")[0]
    arrays = {name: jnp.ones(size, device=device) for name, size in (("x", 33), ("full", MULTIPLE), ("empty", 0))}
    jax.block_until_ready(arrays)
    program = PROGRAM.lower(arrays["x"]).compile()
    with filled_gpu_memory(program, arrays, 0x5A, device):
        pass
    watched = filled_gpu_memory(program, arrays, 0x5A, device)
    watched.__enter__()
    _behind(arrays["x"])[4:5].copy_to_device(np.zeros(1, np.uint8))
    with pytest.raises(WrittenBeyond, match=r"after the end of x: 1 of the 124 bytes .* the first 4 bytes"):
        watched.__exit__(None, None, None)
