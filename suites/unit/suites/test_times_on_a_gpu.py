"""What only a GPU can show: times, gaps, caches, roofs and memory of real work."""

import statistics

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from suites.cells.grid import missing_device
from suites.timing import gpu_roofs
from suites.timing.cuda_measurement import CudaMeasurement
from suites.timing.device_clock import cupti_trace, device_clock, spin, split
from suites.timing.instruments import PREFIX
from suites.timing.resources import resources

MISSING = missing_device("cuda")
PLATFORM = "cpu" if MISSING is not None else "cuda"
pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))


@pytest.fixture(scope="module")
def device():
    return jax.devices("cuda")[0]


@pytest.fixture(scope="module", autouse=True)
def _cupti(device):
    clock = device_clock(device)
    if clock.method != "cupti":
        pytest.skip(f"CUPTI's activities do not work here: {clock.note}")


def measured(program, arguments, cache, size, rounds=3):
    jax.block_until_ready(program(*arguments))
    measurement = CudaMeasurement(program, arguments, arguments[0].device, cache, size)
    for _ in range(rounds):
        measurement.round()
    return measurement.times()


def median(program, arguments, cache, size):
    return statistics.median(measured(program, arguments, cache, size).samples_ns)


def test_a_spin_takes_as_long_as_it_says(device):
    x = jnp.ones(8)
    spinning = spin(1.6e-3, device)
    after = jax.jit(lambda x: x + 1)
    jax.block_until_ready(after(x))

    def run():
        spinning()
        jax.block_until_ready(after(x))

    activities = cupti_trace().collect(run)
    (spun,) = [each for each in activities if PREFIX in each.name]
    assert spun.end_ns - spun.start_ns == pytest.approx(1.6e6, rel=0.1)


def test_one_kernel_has_no_gap(device):
    x = jax.device_put(np.ones(1 << 20, np.float32), device)
    times = measured(jax.jit(lambda x: x + 1), [x], "hot", 2 * x.nbytes)
    assert times.kernels_ns == times.samples_ns
    assert 1e3 < statistics.median(times.samples_ns) < 1e5
    assert times.clock_mhz is None or times.clock_mhz > 100


def test_gaps_and_copies_between_kernels_count(device):
    x = jax.device_put(np.random.default_rng(0).random((1024, 1024), np.float32), device)

    @jax.jit
    def several(x):
        return jnp.sort(jnp.cumsum(x @ x, axis=1), axis=0)

    times = measured(several, [x], "hot", 2 * x.nbytes)
    assert all(span > kernels for span, kernels in zip(times.samples_ns, times.kernels_ns, strict=True))
    # Gaps are the device's own: a call that the host launches late would have some of 10 us and more.
    assert statistics.median(times.samples_ns) < 2 * statistics.median(times.kernels_ns) + 2e4


def test_kernels_in_a_command_buffer_are_seen_one_by_one(device):
    x = jax.device_put(np.ones((256, 256), np.float32), device)

    @jax.jit
    def chain(x):
        for _ in range(8):
            x = jnp.tanh(x @ x)
        return x

    jax.block_until_ready(chain(x))
    activities = cupti_trace().collect(lambda: jax.block_until_ready([chain(x) for _ in range(3)]))
    assert all(len([one for one in call if one.kind == "kernel"]) >= 8 for call in split(activities, 3))


@pytest.mark.parametrize("size", [1 << 12, 1 << 20, 1 << 22])
def test_cold_calls_are_slower_than_hot_ones(device, size):
    x = jax.device_put(np.ones(size, np.float32), device)
    program = jax.jit(lambda x: x + 1)
    hot, cold = (median(program, [x], cache, 2 * x.nbytes) for cache in ("hot", "cold"))
    assert cold > 1.05 * hot


@pytest.mark.parametrize(("count", "cache"), [(1 << 12, "hot"), (1 << 20, "hot"), (1 << 27, "cold")])
def test_an_addition_reaches_the_roof_and_hardly_more(device, count, cache):
    arguments = [jax.device_put(np.full(count, i, np.float32), device) for i in range(2)]
    moved = 8 * count, 4 * count
    ns = median(jax.jit(lambda x, y: x + y), arguments, cache, sum(moved))
    limit = gpu_roofs.roof(*moved, cache)
    assert 0.5 < sum(moved) / (1e-9 * ns) / limit.bandwidth < 1.5, limit.kind


def test_the_memory_of_a_call(device):
    x = jax.device_put(np.ones(1 << 26, np.float32), device)
    found = resources(jax.jit(lambda x: 2 * x), [x])
    assert found.device_bytes >= x.nbytes
