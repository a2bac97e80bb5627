"""Tables in shared memory: what the GPU is asked to do, where a table pays, and how large it is."""

from types import SimpleNamespace
from typing import Any

import pytest

from suites.kernels.numba_cuda import blocks as cuda_kernels
from suites.kernels.numba_cuda import tables as tables
from suites.kernels.numba_cuda.device_facts import GpuFacts

pytestmark = pytest.mark.skipif(cuda_kernels.MISSING is not None, reason=str(cuda_kernels.MISSING))


def array(size: int, dtype: str = "float32") -> Any:
    return SimpleNamespace(shape=(size,), dtype=dtype)


def matrix(rows: int, terms: int, x: Any) -> tuple[list[Any], list[Any]]:
    """The inputs and outputs of a product."""
    return [array(terms), array(terms, "int32"), array(rows + 1, "int32"), x], [array(rows)]


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
