"""The matrix of cells: complete, named so that it reads aloud, nothing left out in silence."""

import re

import pytest

from suites.backends import BACKENDS
from suites.cells.grid import backends
from suites.cells.selection import Selection
from suites.cells.tables import KERNELS, samples
from suites.checks.register import CheckError, check, check_of_id, checks
from suites.ops import operators


@pytest.fixture(scope="module", params=["cpu", "cuda"])
def tables(request):
    """By the name of a check, the table and all cells of it on a platform."""
    return {check.name: (check.cells, check.cells.cells(Selection(device=request.param))) for check in checks()}


def test_ids_are_unique_and_read_aloud(tables):
    for name, (_, cells) in tables.items():
        ids = [param.id for param in cells]
        assert len(set(ids)) == len(ids), name
        assert all(re.fullmatch(r"\w+-\w+-\w+-(\d+|\w+|\d+-\w+)-(cpu|cuda)", each) for each in ids)


def test_every_operator_backend_and_dtype_is_in_the_matrix():
    found = {(p.values[0].operator.name, p.values[0].backend, p.values[0].dtype) for p in samples(Selection())}
    declared = {(o.name, b, dtype) for o in operators().values() for b in backends(o, "cpu") for dtype in o.dtypes}
    assert found == declared


CANNOT_EXIST = "|".join(
    (
        r"no derivative is declared for \w+",
        r"\w+ kernels have no derivative of their own \(.*\)",
        r"[\w. ]+ raises under jax\.vmap: it has no rule for batches",
        r"a tvm_ffi\.Function exists in this process alone",
        r"warp(_tile)? has a derivative in reverse mode alone \(.*\)",
        r"its derivative is declared for float32, float64 alone",
    )
)


@pytest.mark.parametrize("tables", ["cpu"], indirect=True)
def test_nothing_is_skipped_on_the_cpu_but_declared_dtypes(tables):
    declared = {why for each in operators().values() for lacks in each.lacks.values() for why in lacks.values()}
    marked = [(mark.kwargs["reason"], each.id) for _, cells in tables.values() for each in cells for mark in each.marks]
    assert [each for each in marked if each[0] not in declared and not re.fullmatch(CANNOT_EXIST, each[0])] == []


TRANSFORMATIONS = {
    *("endurance", "guards", "indices", "addresses", "drawn"),
    *("vmap", "vmap0", "shard", "export", "x64"),
}


class TestQuick:
    """Every kernel stays in every check, unless the same function compiled otherwise does."""

    def test_every_kernel_stays_in_every_check(self, tables):
        for name, (table, cells) in tables.items():
            every, quick = (
                {(cell.values[0].operator.name, cell.values[0].backend) for cell in some}
                for some in (cells, table.quick(cells))
            )
            lost = every - quick
            allowed = {BACKENDS["jnp"], BACKENDS["numba_parallel"]} if name in TRANSFORMATIONS else {BACKENDS["jnp"]}
            assert {backend for _, backend in lost} <= allowed, name

    def test_batches_keep_two_layouts(self, tables):
        table, cells = tables["vmap"]
        assert {cell.values[0].variant for cell in table.quick(cells)} == {"nested", "only_last_input"}


def test_every_check_is_found_by_its_test_and_says_what_it_sees():
    for each in checks():
        assert check_of_id(f"suites/checks/{each.file.name}::{each.function}[add-numba-f32-33-cpu]") is each
        assert each.sees
    assert check_of_id("suites/unit/suites/test_tables.py::test_kernel_compiles[add]") is None


def test_a_name_is_taken_once():
    with pytest.raises(CheckError, match=r"'vmap' is the name of test_each_element_of_a_batch_is_right .*Rename one"):

        @check("vmap", sees="nothing new", cells=KERNELS)
        def test_other(case):
            pass
