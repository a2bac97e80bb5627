"""Tables in shared memory: what the GPU is asked to do, where a table pays, and how large it is."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

from suites.backends import numba_cuda_blocks as cuda_kernels
from suites.backends import numba_cuda_device_facts as device_facts
from suites.backends import numba_cuda_tables as tables
from suites.backends.numba_cuda_device_facts import GpuFacts, gpu_facts
from suites.ops import operators
from suites.ops.csr_binary_matvec.numba_cuda import WITH_TABLE as BITS
from suites.unit.suites.ptx import ptx_of

pytestmark = pytest.mark.skipif(cuda_kernels.MISSING is not None, reason=str(cuda_kernels.MISSING))


def array(size: int, dtype: str = "float32") -> Any:
    return SimpleNamespace(shape=(size,), dtype=dtype)


def matrix(rows: int, terms: int, x: Any) -> tuple[list[Any], list[Any]]:
    """The inputs and outputs of a product."""
    return [array(terms), array(terms, "int32"), array(rows + 1, "int32"), x], [array(rows)]


def ptx(name: str, table: Any, dtype: str) -> str:
    operator = operators()[name]
    inputs = operator.sample(dtype, 1000, 0)
    return ptx_of(table.kernel, (*inputs, *operator.outputs(*inputs)), len(inputs), (9, 0))


def test_weights_of_silent_neurons_are_not_asked_for() -> None:
    code = ptx("csr_binary_matvec", BITS, "float64")  # whose indices have other loads than weights
    assert len(re.findall(r"ld\.global\S*64", code)) == len(re.findall(r"@p ld\.global\.cs\.b64", code)) >= tables.TERMS
    assert "@p ld.global.cs.b32" in ptx("csr_binary_matvec", BITS, "float32")


@pytest.fixture
def facts(monkeypatch: pytest.MonkeyPatch) -> GpuFacts:
    """A GPU with 10 multiprocessors and 100,000 bytes of shared memory."""
    small = GpuFacts(10, 100_000)
    monkeypatch.setattr(tables, "gpu_facts", lambda: small)
    return small


@pytest.mark.parametrize(("terms", "pays"), [(10_000, True), (9_999, False), (0, False)])
def test_a_table_pays_if_each_block_uses_its_elements(facts: GpuFacts, terms: int, pays: bool) -> None:
    table = tables.TableRows(None, 64, 1, tables.bytes_of_elements, least_uses=1)
    inputs, outs = matrix(100, terms, array(1000))
    assert table.pays(inputs) is pays
    assert table.kernel_or("other")(inputs, outs) is (None if pays else "other")
    assert (table.launch_or(lambda *_: {})(inputs, outs) != {}) is pays


def test_no_more_blocks_are_launched_than_run_at_once_or_have_rows(facts: GpuFacts) -> None:
    table = tables.TableRows(None, 64, 2, tables.bytes_of_elements, least_uses=0)
    launches = [table.launch(*matrix(rows, 30 * rows, array(7))) for rows in (1, 17, 1000)]
    assert [launch["grid"] for launch in launches] == [1, 2, 20]
    assert {launch["block"] for launch in launches} == {(4, 16)}  # 4 lanes have 8 terms each
    assert {launch["shared_mem"] for launch in launches} == {28}


def test_a_launch_fits_all_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    def devices(*each: tuple[int, int]) -> None:
        found = [SimpleNamespace(core_count=count, shared_memory_per_block_optin=size) for count, size in each]
        monkeypatch.setattr(device_facts.jax, "local_devices", lambda backend: found)

    devices((132, 232_448), (108, 166_912))
    assert gpu_facts() == GpuFacts(108, 166_912)

    def none(backend: str) -> None:
        raise RuntimeError(f"no {backend}")

    monkeypatch.setattr(device_facts.jax, "local_devices", none)
    assert gpu_facts() == device_facts.H200
