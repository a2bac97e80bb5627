"""Renders the tables that terminal and Markdown show as HTML tables."""

from __future__ import annotations

from reports.render.layout import Column, Style, Table, Text, notes_of, only
from reports.web.markup import Attributes, Markup, element, joined

LONG = 30
"""A table with more rows is closed until its reader opens it."""

_PROSE = 40
"""A column with a longer text is wrapped."""

_CLASSES = {Style.PLAIN: None, Style.BEST: "best", Style.BAD: "bad", Style.FAINT: "faint"}


def html_table(table: Table, *, css: str = "", closed: bool | None = None) -> Markup:
    """Returns a table with its title as heading, and its notes below it; columns without a text are left out.

    Args:
        table: The table.
        css: A class for it.
        closed: Whether the reader has to open it; by default, with more than `LONG` rows.
    """
    indices = range(len(table.columns))
    table = only(table, [index for index in indices if not table.rows or any(row[index].text for row in table.rows)])
    heading = element("h3", None, table.title)
    body = joined(_scrolling(table, css), _notes(table))
    if len(table.rows) > LONG if closed is None else closed:
        count = element("span", {"class": "count"}, f"{len(table.rows):,} rows")
        return element("details", {"class": "fold"}, element("summary", None, heading, count), body)
    return element("div", {"class": "block"}, heading, body)


def _scrolling(table: Table, css: str) -> Markup:
    """Returns the table in a box that scrolls sideways, also by the keyboard."""
    if not table.rows:
        return element("p", {"class": "faint"}, "(none)")
    looks = [_look(column, [row[index] for row in table.rows]) for index, column in enumerate(table.columns)]
    names = [
        element("th", {"scope": "col", "class": look, "title": column.note or None}, column.header)
        for column, look in zip(table.columns, looks, strict=True)
    ]
    rows = [
        element("tr", None, [_cell(text, look, is_label=not index)
                             for index, (text, look) in enumerate(zip(row, looks, strict=True))])
        for row in table.rows
    ]  # fmt: skip
    caption = element("caption", {"class": "unseen"}, table.title)
    head, body = element("thead", None, element("tr", None, names)), element("tbody", None, rows)
    attributes: Attributes = {"class": "scroll", "tabindex": 0, "role": "region", "aria-label": table.title}
    return element("div", attributes, element("table", {"class": css or None}, caption, head, body))


def _look(column: Column, texts: list[Text]) -> str | None:
    """Returns the classes of a column. The style sheet aligns to the right by default."""
    if column.align == "right":
        return None
    return "left prose" if max(len(text.text) for text in texts) > _PROSE else "left"


def _cell(text: Text, look: str | None, *, is_label: bool) -> Markup:
    css = " ".join(filter(None, (look, _CLASSES[text.style])))
    mark = element("span", {"class": "unseen"}, " (best)") if text.style is Style.BEST else None
    return element("th" if is_label else "td", {"class": css or None, "scope": "row" if is_label else None},
                   text.text, mark)  # fmt: skip


def _notes(table: Table) -> Markup | None:
    notes = notes_of(table, "green")
    if not notes:
        return None
    items = element("ul", None, [element("li", None, one) for one in notes])
    return element("details", {"class": "notes"}, element("summary", None, "Notes"), items)
