"""The roof of a call is a copy of its size, or the work that limits it; the memory of a call is what XLA plans."""

import jax
import jax.numpy as jnp
import pytest

from reports import CellResult, Status
from suites.cells.case import Case
from suites.ops import operators
from suites.timing import bandwidth, device_limits, gpu_roofs
from suites.timing.bandwidth import SMALLEST, TRIES, Roof
from suites.timing.device_clock import CallTimes
from suites.timing.device_limits import compare_with_limits
from suites.timing.resources import resources
from suites.timing.timed_cell import TimedCell
from suites.unit.reports.builders import make_timing

MIB, SIZE = 1 << 20, 1 << 16


@pytest.fixture
def cores(monkeypatch):
    """A machine of two cores, busy at first: one thread moves 1 GB/s, two move 2 GB/s, and twice that from then on."""
    found = []

    def measured(size, threads, *, reads):
        found.append((size, threads, reads))
        return threads * (1e9 if len(found) <= 2 else 2e9)

    monkeypatch.setattr(bandwidth, "rate", measured)
    monkeypatch.setattr(bandwidth, "usable_cores", lambda: [0, 1])
    monkeypatch.setattr(bandwidth, "_measured", {})
    return found


def test_a_small_call_has_no_bandwidth_and_a_large_one_is_compared_with_copies_of_its_size(cores):
    assert bandwidth.roof(SMALLEST // 2, SMALLEST // 4) is None
    assert bandwidth.roof(MIB, MIB - 7) == bandwidth.roof(MIB, MIB + 16) == (2e9, "copy of 2.10 MB")
    assert sorted(cores) == [(2 * MIB, 1, False), (2 * MIB, 2, False)]
    assert bandwidth.roof(8 * MIB, MIB // 2).kind == "read of 8.39 MB"
    assert cores[-1][2]


def test_a_bandwidth_is_known_once_measured_and_measured_again_if_a_call_exceeds_it(cores):
    assert bandwidth.roof(MIB, MIB).bandwidth == bandwidth.roof(MIB, MIB, reached=1.9e9).bandwidth == 2e9
    assert len(cores) == 2
    assert bandwidth.roof(MIB, MIB, reached=3e9).bandwidth == 4e9
    assert len(cores) == 4
    bandwidth.roof(MIB, MIB, reached=9e9)
    assert len(cores) == 4 + 2 * TRIES


@pytest.mark.parametrize(
    ("operator", "dtype", "peak", "kind"),
    [
        ("csr_matvec", "float32", 1e18, "copy, memory"),
        ("nbody", "float32", 1e9, "fused multiply-adds, float32"),
        ("matmul", "float32", 1e9, "fused multiply-adds, float32"),
        ("matmul", "float64", 1e9, "product of 8192 x 8192, float64 (0.0005 Tflop/s)"),
        ("matmul", "bfloat16", 1e18, "copy, memory"),
        ("matmul", "float8_e4m3fn", 1e9, "product of 8192 x 8192, float8_e4m3fn"),
        ("matmul_tf32", "float32", 1e9, "product of 8192 x 8192, TF32"),
        ("attention", "float16", 1e9, "product of 8192 x 8192, float16"),
        ("matvec", "float16", 1e9, "copy, memory"),
    ],
)
def test_a_cell_records_what_limits_it(monkeypatch, operator, dtype, peak, kind):
    monkeypatch.setattr(device_limits.gpu_roofs, "roof", lambda *moved: Roof(1e12, "copy, memory"))
    monkeypatch.setattr(gpu_roofs, "arithmetic_peak", lambda dtype: peak)
    monkeypatch.setattr(gpu_roofs, "product_rate", lambda numbers: peak / 2)
    cell = timed(operator, dtype)
    compare_with_limits(cell)
    assert cell.result.status is Status.PASSED
    assert cell.result.roof_kind.startswith(kind)
    assert cell.result.roof_share == pytest.approx(cell.result.roof_ns / 1e9)


@pytest.mark.parametrize(
    ("numbers", "factors", "result", "precision"),
    [
        ("TF32", "f32", "float32", "HIGH"),
        ("bfloat16", "bf16", "bfloat16", "DEFAULT"),
        ("float8_e4m3fn", "f8_e4m3fn", "float32", "DEFAULT"),
        ("float64", "f64", "float64", "DEFAULT"),
    ],
)
def test_the_rate_of_products_is_that_of_the_fastest_call(monkeypatch, numbers, factors, result, precision):
    programs, devices = [], jax.devices("cpu")

    class Clock:
        def times(self, call, count):
            programs.append(str(jax.make_jaxpr(call)()))
            assert jax.tree.leaves(call())[0].dtype == result
            return [CallTimes(3000.0, None), CallTimes(2000.0, None)][:count]

    monkeypatch.setattr(gpu_roofs, "SIDE", 10)
    monkeypatch.setattr(gpu_roofs, "device_clock", lambda device: Clock())
    monkeypatch.setattr(gpu_roofs.jax, "devices", lambda platform: devices)
    assert gpu_roofs.product_rate.__wrapped__(numbers) == pytest.approx(1e9)
    (program,) = programs
    assert program.count(f"{factors}[10,10]") >= 2
    assert f"precision=(Precision.{precision}, Precision.{precision})" in program


def test_the_fastest_program_that_moves_the_bytes_is_the_roof(monkeypatch):
    shapes, devices = [], jax.devices("cpu")

    class Clock:
        def times(self, call, count, sweep):
            shapes.append(call().shape)
            return [CallTimes({(): 3e3, (512,): 1e3}.get(shapes[-1], 2e3), None)]

    monkeypatch.setattr(gpu_roofs, "device_clock", lambda device: Clock())
    monkeypatch.setattr(gpu_roofs.jax, "devices", lambda platform: devices)
    monkeypatch.setattr(gpu_roofs, "_rate", gpu_roofs._rate.__wrapped__)
    assert gpu_roofs.roof(1 << 21, 4, "cold") == (pytest.approx((1 << 21) / 1e-6), "read of 2.10 MB, cold")
    assert gpu_roofs.roof(1 << 20, 1 << 20, "hot") == (pytest.approx((1 << 21) / 2e-6), "copy of 2.10 MB, hot")
    assert shapes == [(256, 1024), (), (512,), (256, 1024)]


def timed(operator, dtype):
    """A cell on a GPU that took a second."""
    declared = operators()[operator]
    inputs = declared.sample(dtype, 4096, 0)
    cell = TimedCell(Case(declared, declared.backends()[0], dtype, 4096, "cuda"))
    cell.moved = declared.bytes_read(*inputs), declared.bytes_written(*inputs)
    cell.note(flops=declared.flops(*inputs), bytes=sum(cell.moved), timing=make_timing(1e9))
    assert isinstance(cell.result, CellResult)
    return cell


def test_results_and_temporary_arrays_are_planned():
    x = jnp.ones(SIZE)
    function = jax.jit(lambda x: 2 * x)
    for program in (function, function.lower(x).compile()):
        found = resources(program, [x])
        assert (found.device_bytes, found.host_bytes) == (None, 4 * SIZE)
    sorting = jax.jit(lambda x: jnp.sort(jnp.cumsum(x))[::-1] @ jnp.sort(jnp.sin(x)))
    assert resources(sorting, [x]).host_bytes > 4 * SIZE  # a single number is the result
