"""Renders tables for a terminal, with lines between groups and, on request, colours."""

import io
import textwrap
from collections.abc import Iterable
from dataclasses import replace

from rich.console import Console
from rich.text import Text as RichText

from reports.render.layout import (
    GAP,
    Column,
    Row,
    Style,
    Table,
    Text,
    column_widths,
    fit,
    group_spans,
    shown,
    shown_length,
    table_width,
)
from reports.render.plain_text import to_ascii

_LOOKS = {Style.PLAIN: "", Style.BEST: "bold green", Style.BAD: "bold red", Style.FAINT: "dim"}
_RULE = "dim"

_NARROWEST = 16
"""The smallest width of a column whose texts are wrapped."""


def render(tables: Iterable[Table], width: int = 100, color: bool = False, *, ascii_only: bool = False) -> str:
    """Returns the tables as text of at most `width` characters per line.

    First `layout.fit` makes the tables fit. Then long texts are wrapped. Numbers are never wrapped or cut. The best of
    a row has a star before it, which is visible without colours. With `ascii_only`, the text is plain ASCII.
    """
    console = Console(
        file=io.StringIO(),
        width=width,
        force_terminal=color,
        color_system="standard" if color else None,
        highlight=False,
    )
    first = True
    for table in (shown(one, ascii_only=ascii_only) for one in tables):
        for part in fit(table, width):
            if not first:
                console.print()
            first = False
            for line in _lines(part, width):
                if ascii_only:
                    line.plain = to_ascii(line.plain)
                console.print(line, soft_wrap=True)
            _print_notes(console, part, width)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def _lines(table: Table, width: int) -> Iterable[RichText]:
    yield from (RichText(line, "bold") for line in textwrap.wrap(table.title, width))
    if not table.rows:
        yield RichText("  (none)", _RULE)
        return
    widths = _narrowed(table, width)
    spans = group_spans(table.columns)
    yield from _header(table.columns, widths, spans)
    group = ""
    for row in table.rows:
        if row.group != group:
            group = row.group
            yield from (RichText(line, "bold") for line in _broken(group, width))
        for line in _wrapped(row, widths):
            yield _row(line, table.columns, widths, spans)


def _narrowed(table: Table, width: int) -> list[int]:
    """Returns the widths of the columns. If the table is too wide, columns of texts become narrower."""
    widths = column_widths(table)
    excess = table_width(table) - width
    while excess > 0:
        texts = [i for i, column in enumerate(table.columns) if column.align == "left" and widths[i] > _NARROWEST]
        if not texts:
            break
        widest = max(texts, key=lambda i: widths[i])
        less = min(excess, max(1, widths[widest] // 4), widths[widest] - _NARROWEST)
        widths[widest] -= less
        excess -= less
    return widths


def _wrapped(row: Row, widths: list[int]) -> Iterable[Row]:
    """Returns the lines of a row. A text that is too long for its column continues on the next line."""
    lines = [
        [text.text] if text.span or shown_length(text) <= width else _broken(text.text, width)
        for text, width in zip(row.cells, widths, strict=True)
    ]
    for number in range(max(map(len, lines))):
        cells = zip(row.cells, lines, strict=True)
        yield replace(
            row,
            cells=tuple(replace(text, text=own[number]) if number < len(own) else Text("") for text, own in cells),
        )


def _broken(text: str, width: int) -> list[str]:
    """Returns the lines of a text. A name is broken only if it is longer than a line, at its hyphens if it has some.

    So the numbers in a name, such as the size of a cell, stay whole.
    """
    return textwrap.wrap(text, width, break_on_hyphens=any(len(word) > width for word in text.split()))


def _header(columns: tuple[Column, ...], widths: list[int], spans: list[tuple[str, range]]) -> Iterable[RichText]:
    rooms = [_room(widths, numbers) for _, numbers in spans]
    if any(name for name, _ in spans):
        names = (name.center(room) for (name, _), room in zip(spans, rooms, strict=True))
        yield RichText(" │ ".join(names).rstrip(), "bold")
    headers = (
        (" " * GAP).join(_align(columns[i].header, widths[i], columns[i]) for i in numbers) for _, numbers in spans
    )
    yield RichText(" │ ".join(headers).rstrip(), _RULE)
    yield RichText("─┼─".join("─" * room for room in rooms), _RULE)


def _row(row: Row, columns: tuple[Column, ...], widths: list[int], spans: list[tuple[str, range]]) -> RichText:
    line = RichText()
    for place, (_, numbers) in enumerate(spans):
        if place:
            line.append(" │ ", _RULE)
        first = row.cells[numbers[0]]
        if first.span:
            line.append(first.text.rjust(_room(widths, numbers)), _LOOKS[first.style])
            continue
        for i in numbers:
            line.append(" " * (GAP if i != numbers[0] else 0))
            line.append_text(_cell(row.cells[i], widths[i], columns[i]))
    line.rstrip()
    return line


def _cell(text: Text, width: int, column: Column) -> RichText:
    padding = " " * (width - shown_length(text))
    marked = RichText(("*" if text.style is Style.BEST else "") + text.text, _LOOKS[text.style])
    return RichText.assemble(marked, padding) if column.align == "left" else RichText.assemble(padding, marked)


def _print_notes(console: Console, table: Table, width: int) -> None:
    marked = any(text.style is Style.BEST for row in table.rows for text in row.cells)
    for note in (*([f"*: {table.best}"] if marked and table.notes else []), *table.notes):
        lines = RichText(note).wrap(console, max(20, width - 4))
        for number, line in enumerate(lines):
            line.rstrip()
            console.print(RichText.assemble("  " if not number else "    ", line), soft_wrap=True, style=_RULE)


def _room(widths: list[int], numbers: range) -> int:
    return sum(widths[i] for i in numbers) + GAP * (len(numbers) - 1)


def _align(text: str, width: int, column: Column) -> str:
    return text.ljust(width) if column.align == "left" else text.rjust(width)
