"""The roof of a GPU belongs to a level, a size and a share of writes; its kernel compiles with no GPU present."""

import re

import jax
import pytest

from suites.backends.cuda_raw import NO_CUDA_CORE
from suites.bench import gpu, gpu_roofs, stream_kernel
from suites.bench.gpu_roofs import MeasuredRates, Rate, patterns_around, transfers, working_sets
from suites.bench.stream_kernel import PATTERNS, SHAPES, Pattern, expression_of

L2 = 50 << 20


@pytest.mark.parametrize(
    ("written", "patterns"),
    [
        (0.0, [(1, 0)]),
        (1 / 8, [(1, 0), (3, 1)]),
        (0.25, [(3, 1)]),
        (1 / 3, [(2, 1)]),
        (0.34, [(2, 1)]),
        (0.4, [(2, 1), (1, 1)]),
        (0.5, [(1, 1)]),
        (2 / 3, [(1, 2)]),
        (0.9, [(1, 2), (0, 1)]),
        (1.0, [(0, 1)]),
    ],
)
def test_a_kernel_is_compared_with_the_patterns_around_its_share_of_writes(written, patterns):
    assert [tuple(pattern) for pattern in patterns_around(written)] == patterns


def test_every_pattern_has_a_name_of_its_own():
    assert len({pattern.label for pattern in PATTERNS}) == len(PATTERNS)
    assert [pattern.written for pattern in PATTERNS] == sorted(pattern.written for pattern in PATTERNS)
    assert Pattern(5, 2).label == "5 reads, 2 writes"


def test_cells_in_the_cache_share_a_roof_and_add_their_own_size():
    level, sizes = working_sets(12 << 20, "hot", L2)
    assert level == "L2 cache"
    assert (12 << 20, "hot") in sizes
    assert all(size <= L2 and state == "hot" for size, state in sizes)
    other = working_sets(1 << 20, "hot", L2)[1]
    assert {*sizes} - {*other} == {(12 << 20, "hot")}


def test_a_hot_cell_larger_than_the_cache_has_its_own_size_and_memory():
    level, sizes = working_sets(2 * L2, "hot", L2)
    assert level == "L2 cache and memory"
    assert sizes == ((5 * L2, "cold"), (10 * L2, "cold"), (2 * L2, "hot"))


@pytest.mark.parametrize("size", [12, 1 << 20, 8 * L2, 1 << 40])
def test_a_cold_cell_is_compared_with_memory(size):
    level, sizes = working_sets(size, "cold", L2)
    assert level == "memory"
    assert all(state == "cold" for _, state in sizes)
    assert max(each for each, _ in sizes) <= 1 << 30


@pytest.mark.parametrize("size", [12, 1 << 20, 2 * L2, 10 * L2])
def test_cold_transfers_move_on_and_hot_ones_stay(size):
    needed, hot = transfers(size, "hot", L2)
    assert {each.begin for each in hot} == {0}
    assert needed >= size
    needed, cold = transfers(size, "cold", L2)
    places = {each.begin for each in cold}
    assert max(places) + size <= needed
    assert needed >= 5 * L2
    if size >= 1 << 20:
        assert len(places) > 1
    assert all(each.begin % 16 == 0 for each in cold)
    # Each launch is at another place than the launches before, until the cache has been moved five times.
    distance = needed // -(-size // 4096) // 4096
    begins = [each.begin for each in cold]
    assert all(begins[i] not in begins[max(0, i - distance + 1) : i] for i in range(len(begins)))
    for launches in (hot, cold):
        assert {each.shape for each in launches} == {*SHAPES}
        assert sum(each.counts for each in launches) == 8 * len(SHAPES)


def test_each_rate_is_measured_once():
    asked = []

    def measure(device, keys):
        asked.append(list(keys))
        return [Rate(float(size)) for _, size, _ in keys]

    rates = MeasuredRates(None, measure)
    copy, read = Pattern(1, 1), Pattern(1, 0)
    one, two = Rate(1.0), Rate(2.0)
    assert rates.of([(copy, 1, "hot"), (copy, 2, "hot"), (copy, 1, "hot")]) == {
        (copy, 1, "hot"): one,
        (copy, 2, "hot"): two,
    }
    assert rates.of([(copy, 2, "hot"), (read, 2, "hot")]) == {(copy, 2, "hot"): two, (read, 2, "hot"): two}
    assert asked == [[(copy, 1, "hot"), (copy, 2, "hot")], [(read, 2, "hot")]]


def test_the_roof_is_the_best_pattern_and_size(monkeypatch):
    rates = MeasuredRates(None, lambda device, keys: [Rate(1e12 * pattern.reads + size) for pattern, size, _ in keys])
    monkeypatch.setattr(gpu_roofs, "measured_rates", lambda device: rates)
    monkeypatch.setattr(gpu, "l2_bytes", lambda: L2)
    monkeypatch.setattr(gpu_roofs.jax, "devices", lambda platform: [None])
    found = gpu_roofs.roof(8 << 20, 4 << 20, "hot")
    assert found == (2e12 + 12 * L2 // 16, "2 reads per write, L2 cache")
    assert gpu_roofs.roof(5 << 20, 5 << 20, "cold").kind == "copy, memory"
    assert gpu_roofs.roof(3 << 20, 2 << 20, "cold").kind == "2 reads per write, memory"
    assert gpu_roofs.roof(0, 0, "cold").kind == "read, memory"


def test_where_the_tuned_kernel_does_not_run_the_roof_says_so(monkeypatch):
    monkeypatch.setattr(gpu, "l2_bytes", lambda: 1 << 16)
    monkeypatch.setattr(gpu_roofs, "StreamKernels", lambda device, size: 1 // 0)
    device = jax.devices("cpu")[0]
    monkeypatch.setattr(gpu_roofs.jax, "devices", lambda platform: [device])
    for moved, label in (
        ((1 << 14, 1 << 14), "copy, L2 cache"),
        ((1 << 14, 0), "read, L2 cache"),
        ((0, 8), "write, L2 cache"),
    ):
        found = gpu_roofs.roof(*moved, "hot")
        assert found.kind.startswith(
            f"{label}, by XLA's own code, since the tuned kernel does not run (ZeroDivisionError"
        )
        assert 1e6 < found.bandwidth < 1e13
    gpu_roofs.measured_rates.cache_clear()


@pytest.mark.skipif(NO_CUDA_CORE is not None, reason=str(NO_CUDA_CORE))
@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern.label)
def test_the_kernel_moves_sixteen_bytes_at_a_time_and_nothing_else(pattern):
    from cuda import core

    from bridge.languages.cuda_cpp import _ptx

    assert stream_kernel.compiled_stream(pattern, "sm_90").code
    for unroll in {shape.unroll for shape in SHAPES}:
        program = core.Program(stream_kernel.SOURCE, "c++", core.ProgramOptions(std="c++17", arch="sm_90"))
        program.compile("cubin", name_expressions=(expression_of(pattern, unroll),))
        ptx = _ptx(program)
        loads, stores = (re.findall(rf"\b{word}\.global[\w.]*", ptx) for word in ("ld", "st"))
        assert len(loads) == unroll * pattern.reads
        assert len(stores) == max(1, unroll * pattern.writes)  # a kernel that only reads has a store it never reaches
        assert all(".v4.u32" in each for each in loads + stores)
        assert ".local" not in ptx
