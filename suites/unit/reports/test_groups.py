"""Names of row groups and orders of dtypes and backends."""

from reports.pages.groups import Variant, backend_order, dtype_order, group_names


def variant(params="{}", size=1, mode="forward", version=1, operator="op"):
    return Variant(operator, version, mode, params, size)


def test_a_plain_operator_is_its_name():
    assert group_names([variant(), variant(size=2)]) == ["op", "op"]


def test_modes_and_parameters_are_named():
    assert group_names([variant('{"density": 0.1, "order": "row"}', mode="vjp")]) == ["op  vjp  density=0.1  order=row"]


def test_a_parameter_that_the_size_decides_makes_no_group():
    assert group_names([variant('{"rows": 1}', 64), variant('{"rows": 2}', 128)]) == ["op", "op"]


def test_a_parameter_that_varies_within_a_size_does():
    names = group_names([variant('{"k": 1}', 64), variant('{"k": 2}', 64), variant('{"k": 1}', 128)])
    assert names == ["op  k=1", "op  k=2", "op  k=1"]


def test_versions_are_named_where_there_are_several():
    names = group_names([variant(version=1), variant(version=2), variant(operator="other", version=2)])
    assert names == ["op  (version 1)", "op  (version 2)", "other"]


def test_orders():
    dtypes = ["uint8", "float64", "bool", "float16", "float32", "bfloat16"]
    assert sorted(dtypes, key=dtype_order) == ["bfloat16", "bool", "float16", "float32", "float64", "uint8"]
    assert sorted(["warp", "jnp", "cute"], key=lambda name: backend_order(name, "jnp")) == [
        "jnp",
        "cute",
        "warp",
    ]
