"""The matrix of cells: complete, named so that it reads aloud, nothing left out in silence."""

import re

import pytest

from suites.backends import BACKENDS
from suites.cells.grid import backends
from suites.cells.tables import KERNELS, samples
from suites.checks.register import CheckError, check, check_of, check_of_id, checks
from suites.ops import operators

TABLES = {check.name: check.cells for check in checks()}
ALL = [table.cells(platform) for table in TABLES.values() for platform in ("cpu", "cuda")]


@pytest.mark.parametrize("table", ALL)
def test_ids_are_unique_and_read_aloud(table):
    ids = [param.id for param in table]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"\w+-\w+-\w+-(\d+|\w+|\d+-\w+)-(cpu|cuda)", name) for name in ids)


def test_every_operator_backend_and_dtype_is_in_the_matrix():
    found = {(p.values[0].operator.name, p.values[0].backend, p.values[0].dtype) for p in samples("cpu")}
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


def _marked(platform):
    """Marked cells by the reason of their marks, without those that cannot exist anywhere."""
    cells = [param for table in TABLES.values() for param in table.cells(platform) if param.marks]
    reasons = [(mark.kwargs["reason"], param.values[0]) for param in cells for mark in param.marks]
    return [(reason, case) for reason, case in reasons if not re.fullmatch(CANNOT_EXIST, reason)]


def test_nothing_is_skipped_on_the_cpu_but_declared_dtypes():
    declared = {why for each in operators().values() for lacks in each.lacks.values() for why in lacks.values()}
    assert [(reason, case) for reason, case in _marked("cpu") if reason not in declared] == []


@pytest.fixture(scope="module", params=["cpu", "cuda"])
def tables(request):
    """By name, all cells of a table, and the quick ones of them."""
    found = {}
    for name, table in TABLES.items():
        cells = table.cells(request.param)
        found[name] = tuple([param.values[0] for param in some] for some in (cells, table.quick(cells)))
    return found


TRANSFORMATIONS = {
    *("endurance", "guards", "indices", "addresses", "drawn"),
    *("vmap", "vmap0", "shard", "export", "x64"),
}


class TestQuick:
    """Every kernel stays in every check, unless the same function compiled otherwise does."""

    def test_every_kernel_stays_in_every_check(self, tables):
        for name, (cells, quick) in tables.items():
            lost = {(case.operator.name, case.backend) for case in cells}
            lost -= {(case.operator.name, case.backend) for case in quick}
            allowed = {BACKENDS["jnp"], BACKENDS["numba_parallel"]} if name in TRANSFORMATIONS else {BACKENDS["jnp"]}
            assert {backend for _, backend in lost} <= allowed, name

    def test_batches_keep_two_layouts(self, tables):
        _, quick = tables["vmap"]
        assert {case.variant for case in quick} == {"nested", "only_last_input"}


def test_every_check_is_found_by_its_test_and_says_what_it_sees():
    for each in checks():
        assert check_of(each.file, each.function) is each
        assert check_of_id(f"suites/checks/{each.file.name}::{each.function}[add-numba-f32-33-cpu]") is each
        assert each.sees
    assert check_of_id("suites/unit/suites/test_tables.py::test_kernel_compiles[add]") is None


def test_a_name_is_taken_once():
    with pytest.raises(CheckError, match=r"'vmap' is the name of test_each_element_of_a_batch_is_right .*Rename one"):

        @check("vmap", sees="nothing new", cells=KERNELS)
        def test_other(case):
            pass
