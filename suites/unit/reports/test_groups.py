"""Names of row groups and orders of dtypes and backends."""

from reports.pages.groups import dtype_order, group_names
from suites.unit.reports.builders import make_cell


def cell(params=None, size=1, mode="forward", version=1, operator="op"):
    return make_cell(operator=operator, operator_version=version, mode=mode, params=params or {}, size=size)


def test_a_plain_operator_is_its_name():
    assert group_names([cell(), cell(size=2)]) == ["op", "op"]


def test_modes_and_parameters_are_named():
    assert group_names([cell({"density": 0.1, "order": "row"}, mode="vjp")]) == ["op  vjp  density=0.1  order=row"]


def test_a_parameter_that_the_size_decides_makes_no_group():
    assert group_names([cell({"rows": 1}, 64), cell({"rows": 2}, 128)]) == ["op", "op"]


def test_a_parameter_that_varies_within_a_size_does():
    names = group_names([cell({"k": 1}, 64), cell({"k": 2}, 64), cell({"k": 1}, 128)])
    assert names == ["op  k=1", "op  k=2", "op  k=1"]


def test_versions_are_named_where_there_are_several():
    names = group_names([cell(version=1), cell(version=2), cell(operator="other", version=2)])
    assert names == ["op  (version 1)", "op  (version 2)", "other"]


def test_dtypes_are_sorted_by_kind_and_size():
    dtypes = ["uint8", "float64", "bool", "float16", "float32", "bfloat16"]
    assert sorted(dtypes, key=dtype_order) == ["bfloat16", "bool", "float16", "float32", "float64", "uint8"]
