"""Compares ``vmap_method="parallel"`` with the default, for batches and elements of several sizes."""

from __future__ import annotations

import functools
import statistics
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numba
import numpy as np

import bridge
from reports.render.layout import Column, Table, Text
from reports.render.units import ratio_text, time_text

BATCHES, STEPS = (1, 2, 8, 64, 1024), (0, 100, 2_500, 25_000)
"""Elements, and steps in the loop of an element: a step takes a few nanoseconds, and needs the one before."""


@numba.njit
def _steps(x, steps, out):  # type: ignore[no-untyped-def]
    total = x[0]
    for _ in range(steps[0]):
        total = total * np.float32(0.5) + np.float32(1)
    out[0] = total


def table(measure: Callable[[dict[Any, Callable[[int], Any]], int], dict[Any, list[float]]], rounds: int) -> Table:
    """Measures batches both ways, in turn.

    Args:
        measure: Returns nanoseconds for each iteration of each function, in each round.
        rounds: Measurements of each.
    """
    out = jax.ShapeDtypeStruct((1,), jnp.float32)
    wrapped = [bridge.numba_kernel(_steps, out, vmap_method=method) for method in (None, "parallel")]
    calls = [jax.jit(jax.vmap(each, (0, None))) for each in wrapped]
    rows = []
    for steps in STEPS:
        for batch in BATCHES:
            x, count = jnp.arange(float(batch))[:, None], jnp.array([steps])
            if not np.array_equal(*(call(x, count) for call in calls)):
                raise ValueError(f"a batch of {batch} has other results in parallel")

            def run(call: Any, iterations: int, x: Any = x, count: Any = count) -> Any:
                for _ in range(iterations):
                    result = call(x, count).block_until_ready()
                return result

            times = measure({call: functools.partial(run, call) for call in calls}, rounds)
            one, shared = (times[call] for call in calls)
            ratio = statistics.median(a / b for a, b in zip(one, shared, strict=True))
            medians = statistics.median(one) / batch, statistics.median(one), statistics.median(shared)
            rows.append((Text(str(batch)), *(Text(time_text(each)) for each in medians), Text(ratio_text(ratio))))
    names = ("elements", "time of one", "in turn", "parallel", "ratio")
    notes = ("ratio: time in turn divided by time in parallel, median over rounds",)
    return Table("Batches over XLA's threads", tuple(map(Column, names)), tuple(rows), notes)
