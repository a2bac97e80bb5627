"""Measures the time of one call, and compares it with a hand-written C++ handler: ``nox -s dispatch -- [cpu|cuda]``.

Every way to call adds two small vectors. Each round measures all ways, so changes of the machine reach all alike.
"""

from __future__ import annotations

import gc
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from reports import Status
from reports.options import Parser
from reports.render.layout import Column, Table, Text
from reports.render.terminal import render
from reports.render.units import ratio_text, time_text
from suites.dispatch import batches
from suites.dispatch.ways import SIZES, WAYS, Call, Unavailable

LOOP_CALLS, CHAIN_CALLS, SAMPLE_NS = 100, 50, 5e6


def modes(call: Call) -> dict[str, tuple[str, int, Callable[..., Any]]]:
    """Returns the situations of a call, by name: a text, the calls in an iteration, and a function that iterates."""

    def body(_: Any, carry: jax.Array, y: jax.Array) -> Any:
        return jax.lax.optimization_barrier(call(carry, y))

    def many(trips: Any, x: jax.Array, y: jax.Array) -> Any:
        inner = lambda _, carry: jax.lax.fori_loop(0, LOOP_CALLS, lambda i, each: body(i, each, y), carry)  # noqa: E731
        return jax.lax.fori_loop(0, trips, inner, x)

    def chained(x: jax.Array, y: jax.Array) -> Any:
        for i in range(CHAIN_CALLS):
            x = body(i, x, y)
        return x

    def looped(one: Any) -> Callable[..., Any]:
        def run(iterations: int, x: jax.Array, y: jax.Array) -> Any:
            for _ in range(iterations):
                result = one(x, y).block_until_ready()
            return result

        return run

    return {
        "loop": ("in a jitted fori_loop", LOOP_CALLS, jax.jit(many)),
        "chain": (f"{CHAIN_CALLS}-call chain in one jit", CHAIN_CALLS, looped(jax.jit(chained))),
        "jit": ("single jitted call", 1, looped(jax.jit(call))),
        "eager": ("eager call", 1, looped(call)),
    }


def measure(runs: dict[Any, Callable[[int], Any]], rounds: int) -> dict[Any, list[float]]:
    """Returns nanoseconds per iteration of each function. Each round runs all functions, in a random order."""
    counts: dict[Any, int] = {}
    samples: dict[Any, list[float]] = {key: [] for key in runs}
    for key, run in runs.items():
        count = 1
        while (took := min(_elapsed(run, count) for _ in range(3))) < SAMPLE_NS / 4:
            count *= 2
        counts[key] = max(1, round(count * SAMPLE_NS / took))
    gc.disable()
    for _ in range(rounds):
        for key in random.sample(list(runs), len(runs)):
            samples[key].append(_elapsed(runs[key], counts[key]) / counts[key])
    gc.enable()
    return samples


def _elapsed(run: Callable[[int], Any], count: int) -> int:
    start = time.perf_counter_ns()
    jax.block_until_ready(run(count))
    return time.perf_counter_ns() - start


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures all ways and prints them; returns 1 if one is wrong."""
    parser = Parser("nox -s dispatch --", description="Measure what one call costs.")
    parser.add_argument(
        "platform",
        nargs="?",
        choices=(*WAYS, "batches"),
        default="cpu",
        help="where calls run (default: cpu), or batches: compares vmap_method='parallel' with the default",
    )
    parser.add_argument("rounds", nargs="?", type=int, default=100, help="measurements of each way (default: 100)")
    options = parser.parse_args(arguments)
    platform = options.platform
    if platform == "batches":
        print(render([batches.table(measure, options.rounds)], 120, False))
        return 0
    try:
        device, size = jax.devices(platform)[0], SIZES[platform]
    except RuntimeError as error:
        parser.error(f"jax has no {platform} device: {error}".splitlines()[0])
    out = jax.ShapeDtypeStruct((size,), jnp.float32)
    x, y = (jax.device_put(np.full(size, value, np.float32), device) for value in (1.0, 0.5))
    built, failed = {}, {}
    with jax.default_device(device):
        for name, (_, build) in WAYS[platform].items():
            try:
                for mode, (_, calls, run) in modes(build(out)).items():
                    # Exact in float32, so the result shows that every call ran.
                    expected = 1 + 0.5 * (calls if mode in ("loop", "chain") else 1)
                    if not np.array_equal(run(1, x, y), np.full(size, expected, np.float32)):
                        raise ValueError(f"{mode} gave {run(1, x, y)[:3]}, expected {expected}")
                    built[name, mode] = (lambda count, run=run: run(count, x, y)), calls
            except (ImportError, Unavailable) as error:
                failed[name] = Status.SKIPPED, str(error)
            except Exception as error:
                failed[name] = Status.RUNTIME_ERROR, f"{type(error).__name__}: {error}".splitlines()[0]
        iterations = measure({key: run for key, (run, _) in built.items() if key[0] not in failed}, options.rounds)
    samples = {key: [one / built[key][1] for one in own] for key, own in iterations.items()}
    columns = [Column("way to call", "left"), Column("situation", "left"), Column("time"), Column("times C++")]
    rows = [
        (Text(WAYS[platform][name][0]), Text(modes(jnp.add)[mode][0]), Text(time_text(statistics.median(own))),
         Text(ratio_text(_ratio(own, samples.get(("cpp", mode))))))
        for (name, mode), own in sorted(samples.items(), key=lambda one: [*modes(jnp.add)].index(one[0][1]))
    ]  # fmt: skip
    notes = ("times C++: divided by the time of the hand-written C++ handler, median over rounds",
             *(f"{status} {name}: {reason}" for name, (status, reason) in failed.items()))  # fmt: skip
    print(render([Table(f"Cost of a call on {platform}", tuple(columns), tuple(rows), notes)], 120, False))
    return int(any(status is Status.RUNTIME_ERROR for status, _ in failed.values()))


def _ratio(own: Sequence[float], other: Sequence[float] | None) -> float | None:
    return None if other is None else statistics.median(one / two for one, two in zip(own, other, strict=True))


if __name__ == "__main__":
    sys.exit(main())
