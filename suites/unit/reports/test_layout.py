"""Tables made to fit a width."""

import pytest

from reports.render.layout import Column, Row, Style, Table, Text, column_widths, fit, table_width


def make_table(backends=3, notes=("note",)):
    """A label column, then three columns per backend: one that stays, and two that may go."""
    columns = [Column("size")]
    cells = [Text("4096")]
    for number in range(backends):
        group = f"b{number}"
        columns += [
            Column("time", group),
            Column("more", group, drop=2, note="about more"),
            Column("x", group, drop=1),
        ]
        cells += [Text("12.3 µs"), Text("123456789"), Text("12345")]
    return Table("T", tuple(columns), (Row(tuple(cells)),), notes)


@pytest.mark.parametrize("backends", [1, 2, 3, 7])
@pytest.mark.parametrize("width", [20, 40, 80, 100, 160])
def test_every_part_fits_and_no_group_is_lost(backends, width):
    parts = fit(make_table(backends), width)
    assert all(table_width(part) <= width for part in parts)
    groups = [column.group for part in parts for column in part.columns if column.group and column.header == "time"]
    assert groups == [f"b{number}" for number in range(backends)]


def test_a_table_that_fits_is_left_alone():
    table = make_table()
    (part,) = fit(table, table_width(table))
    assert part.columns == table.columns
    assert part.notes == ("about more", "note")


def test_optional_columns_go_in_order_before_the_table_is_split():
    table = make_table()
    (part,) = fit(table, table_width(table) - 1)
    assert {column.header for column in part.columns} == {"size", "time", "x"}
    left_out = f"left out, the lines are too short: more. --width {table_width(table)} shows all columns"
    assert part.notes == (left_out, "note"), "the note of a column goes with it"
    (part,) = fit(table, 45)
    assert {column.header for column in part.columns} == {"size", "time"}


def test_parts_are_even_repeat_the_labels_and_are_numbered():
    parts = fit(make_table(4), 30)
    assert [part.title for part in parts] == ["T (1 of 2)", "T (2 of 2)"]
    assert [[column.group for column in part.columns if column.header == "time"] for part in parts] == [
        ["b0", "b1"],
        ["b2", "b3"],
    ]
    assert all(part.columns[0].header == "size" for part in parts)
    left_out = "left out, the lines are too short: more, x. --width 108 shows all columns"
    assert [part.notes for part in parts] == [(), (left_out, "note")]


def test_what_cannot_fit_is_not_cut():
    (part,) = fit(make_table(1), 5)
    assert table_width(part) > 5
    assert part.rows[0].cells[1].text == "12.3 µs"


def test_a_spanning_text_takes_the_room_of_its_group():
    columns = (Column("time", "b"), Column("x", "b"))
    short = Table("T", columns, (Row((Text("OOM", span=True), Text(""))), Row((Text("12.3 µs"), Text("1.00")))))
    assert column_widths(short) == [7, 4]
    long = Table("T", columns, (Row((Text("NONDETERMINISTIC", span=True), Text(""))),))
    assert table_width(long) == 16


def test_the_mark_of_the_fastest_has_room():
    table = Table("T", (Column("t", "b"),), (Row((Text("12", Style.BEST),)),))
    assert column_widths(table) == [3]


def test_a_long_group_name_has_room():
    assert table_width(Table("T", (Column("t", "long_backend"),), (Row((Text("1"),)),))) == len("long_backend")
