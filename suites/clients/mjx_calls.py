"""Steps of MJX with bodies in contact: what MuJoCo itself computes, one world and several."""

from __future__ import annotations

import functools
import os
from typing import Any

os.environ.setdefault("MUJOCO_GL", "disable")  # it is asked for when MuJoCo is imported

import jax
import mujoco
import numpy as np
import pytest
from mujoco import mjx

SHAPES = {"box": ".1 .1 .1", "sphere": ".1", "capsule": ".06 .1"}
BODIES = "".join(
    f'<body pos="0 {0.5 * i} .12"><freejoint/><geom type="{shape}" size="{size}"/></body>'
    for i, (shape, size) in enumerate(SHAPES.items())
)
MODEL = mujoco.MjModel.from_xml_string(
    f'<mujoco><worldbody><geom type="plane" size="5 5 .1"/>{BODIES}</worldbody></mujoco>'
)
STEPS = 100


@functools.cache
def expected() -> Any:
    """Where the bodies are after the steps, as MuJoCo computes it."""
    data = mujoco.MjData(MODEL)
    mujoco.mj_step(MODEL, data, STEPS)
    assert data.ncon > 0
    return data.qpos.copy()


@pytest.mark.parametrize("worlds", [None, 3])
def test_steps(worlds: int | None) -> None:
    """Steps in a compiled loop end where MuJoCo's do, in each world."""
    model = mjx.put_model(MODEL, impl="warp")
    step = functools.partial(mjx.step, model)
    make = functools.partial(mjx.make_data, MODEL, impl="warp", naconmax=32 * (worlds or 1), njmax=128)
    if worlds is None:
        data = make()
    else:
        step, data = jax.vmap(step), jax.vmap(lambda _: make())(np.arange(worlds))
    end = jax.jit(lambda data: jax.lax.fori_loop(0, STEPS, lambda _, each: step(each), data))(data)
    np.testing.assert_allclose(end.qpos, np.broadcast_to(expected(), end.qpos.shape), atol=2e-3)
