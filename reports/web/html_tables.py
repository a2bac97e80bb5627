"""Renders the tables that terminal and Markdown show as HTML tables."""

from __future__ import annotations

from dataclasses import replace

from reports.render.layout import Column, Row, Style, Table, Text, group_spans
from reports.web.markup import Attributes, Content, Markup, element, joined

LONG = 30
"""A table with more rows is closed until its reader opens it."""

_CLASSES = {Style.PLAIN: None, Style.BEST: "best", Style.BAD: "bad", Style.FAINT: "faint"}


def html_table(table: Table, *, css: str = "", closed: bool | None = None, level: int = 3) -> Markup:
    """Returns a table with its title as heading, and its notes below it.

    Args:
        table: The table.
        css: A class for it.
        closed: Whether only its heading is shown until it is opened; by default, for more than `LONG` rows.
        level: The level of the heading.
    """
    table = _filled(table)
    heading = element(f"h{level}", None, table.title)
    body = joined(_scrolling(table, css), _notes(table))
    if len(table.rows) > LONG if closed is None else closed:
        count = element("span", {"class": "count"}, f"{len(table.rows):,} rows")
        return element("details", {"class": "fold"}, element("summary", None, heading, count), body)
    return element("div", {"class": "block"}, heading, body)


def _filled(table: Table) -> Table:
    """The table without columns in which no row has a text."""
    kept = [
        place
        for place in range(len(table.columns))
        if not table.rows or any(row.cells[place].text or _is_spanned(row, place, table) for row in table.rows)
    ]
    rows = tuple(replace(row, cells=tuple(row.cells[place] for place in kept)) for row in table.rows)
    return replace(table, columns=tuple(table.columns[place] for place in kept), rows=rows)


def _is_spanned(row: Row, place: int, table: Table) -> bool:
    group = table.columns[place].group
    return any(
        text.span and column.group == group for text, column in zip(row.cells[:place], table.columns, strict=False)
    )


def _scrolling(table: Table, css: str) -> Markup:
    """The table in a box that scrolls sideways, which the keyboard can reach."""
    if not table.rows:
        return element("p", {"class": "faint"}, "(none)")
    rows: list[Content] = []
    group = ""
    for row in table.rows:
        if row.group != group:
            group = row.group
            head = element("th", {"colspan": len(table.columns), "scope": "colgroup"}, group)
            rows.append(element("tr", {"class": "group"}, head))
        rows.append(_row(row, table.columns))
    caption = element("caption", {"class": "unseen"}, table.title)
    grid = element("table", {"class": css or None}, caption, _header(table.columns), element("tbody", None, rows))
    attributes: Attributes = {"class": "scroll", "tabindex": 0, "role": "region", "aria-label": table.title}
    return element("div", attributes, grid)


def _header(columns: tuple[Column, ...]) -> Markup:
    spans = group_spans(columns)
    lines = []
    if any(name for name, _ in spans):
        cells = [
            element("th", {"colspan": len(numbers), "scope": "colgroup", "class": "span"}, name)
            if name
            else element("td", {"colspan": len(numbers)})
            for name, numbers in spans
        ]
        lines.append(element("tr", None, cells))
    names = [
        element("th", {"scope": "col", "class": column.align, "title": column.note or None}, column.header)
        for column in columns
    ]
    return element("thead", None, lines, element("tr", None, names))


def _row(row: Row, columns: tuple[Column, ...]) -> Markup:
    cells: list[Content] = []
    skipped = 0
    for place, (text, column) in enumerate(zip(row.cells, columns, strict=True)):
        if skipped:
            skipped -= 1
            continue
        wide = 1
        if text.span:
            numbers = next(numbers for _, numbers in group_spans(columns) if place in numbers)
            wide, skipped = numbers.stop - place, numbers.stop - place - 1
        cells.append(_cell(text, column, wide, is_label=place == 0))
    return element("tr", None, cells)


def _cell(text: Text, column: Column, wide: int, *, is_label: bool) -> Markup:
    css = " ".join(filter(None, (column.align, _CLASSES[text.style])))
    attributes = {"class": css, "colspan": wide if wide > 1 else None, "scope": "row" if is_label else None}
    mark = element("span", {"class": "unseen"}, " (best)") if text.style is Style.BEST else None
    return element("th" if is_label else "td", attributes, text.text, mark)


def _notes(table: Table) -> Markup | None:
    marked = any(text.style is Style.BEST for row in table.rows for text in row.cells)
    said = [*([f"green: {table.best}"] if marked and table.best else []), *dict.fromkeys(
        column.note for column in table.columns if column.note
    ), *table.notes]  # fmt: skip
    if not said:
        return None
    items = element("ul", None, [element("li", None, one) for one in said])
    return element("details", {"class": "notes"}, element("summary", None, "Notes"), items)
