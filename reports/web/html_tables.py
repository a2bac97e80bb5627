"""Renders the tables that terminal and Markdown show as HTML tables."""

from __future__ import annotations

from reports.render.layout import Column, Style, Table, Text, notes_of, only
from reports.render.units import ABSENT
from reports.web.markup import Attributes, Markup, element, joined

LONG = 30
"""A table with more rows is closed until its reader opens it."""

TURNED = 7
"""A grid of more columns than these has their names turned, which takes less width."""

_PROSE = 40
"""A column with a longer text is wrapped."""

_CLASSES = {Style.PLAIN: None, Style.BEST: "best", Style.BAD: "bad", Style.FAINT: "faint"}


def html_table(table: Table, *, css: str = "", closed: bool | None = None) -> Markup:
    """Returns a table with its title as heading, and its notes below it; empty columns are left out.

    Args:
        table: The table.
        css: A class for it.
        closed: Whether the reader has to open it; by default, with more than `LONG` rows.
    """
    kept = [index for index in range(len(table.columns))
            if not table.rows or any(row[index].text not in ("", ABSENT) for row in table.rows)]  # fmt: skip
    table = only(table, kept)
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
        element(
            "th", {"scope": "col", "class": look, "title": column.note or None}, element("span", None, column.header)
        )
        for column, look in zip(table.columns, looks, strict=True)
    ]
    rows = [
        element("tr", None, [_cell(text, look, column.header if index else None)
                             for index, (text, look, column) in enumerate(zip(row, looks, table.columns, strict=True))])
        for row in table.rows
    ]  # fmt: skip
    caption = element("caption", {"class": "unseen"}, table.title)
    css = f"{css} turned" if css and len(table.columns) > TURNED else css
    head, body = element("thead", None, element("tr", None, names)), element("tbody", None, rows)
    attributes: Attributes = {"class": "scroll", "tabindex": 0, "role": "region", "aria-label": table.title}
    return element("div", attributes, element("table", {"class": css or None}, caption, head, body))


def _look(column: Column, texts: list[Text]) -> str | None:
    """Returns the classes of a column. The style sheet aligns to the right by default."""
    if column.align == "right":
        return None
    return "left prose" if max(len(text.text) for text in texts) > _PROSE else "left"


def _cell(text: Text, look: str | None, header: str | None) -> Markup:
    """Returns a cell, with the header of its column for a phone, which shows a row as a list; None for the first."""
    css = " ".join(filter(None, (look, _CLASSES[text.style], "none" if text.text in ("", ABSENT) else None)))
    mark = element("span", {"class": "unseen"}, " (best)") if text.style is Style.BEST else None
    attributes: Attributes = {"scope": "row"} if header is None else {"data-label": header}
    return element("th" if header is None else "td", {"class": css or None, **attributes}, text.text, mark)


def _notes(table: Table) -> Markup | None:
    notes = notes_of(table, "green")
    if not notes:
        return None
    items = element("ul", None, [element("li", None, one) for one in notes])
    return element("details", {"class": "notes"}, element("summary", None, "Notes"), items)
