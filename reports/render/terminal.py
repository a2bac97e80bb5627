"""Renders tables for a terminal, on request with colours."""

import textwrap
from collections.abc import Iterable, Iterator
from itertools import zip_longest

from rich.color import ColorSystem
from rich.style import Style as Look

from reports.render.layout import GAP, Column, Row, Style, Table, column_widths, fit, line_width, notes_of, shown

_LOOKS = {Style.BEST: Look.parse("bold green"), Style.BAD: Look.parse("bold red"), Style.FAINT: Look.parse("dim")}
_TITLE, _RULE = Look.parse("bold"), Look.parse("dim")

_NARROWEST = 16
"""The smallest width of a column whose texts are wrapped."""


def render(tables: Iterable[Table], width: int = 100, color: bool = False) -> str:
    """Returns the tables as text of at most `width` characters per line.

    A table that is too wide loses optional columns, then its columns of words are wrapped. Numbers are never
    wrapped or cut. The best of a row has a star before it, which is visible without colours.
    """
    return "\n".join("".join(f"{line}\n" for line in _lines(fit(shown(one), width), width, color)) for one in tables)


def _lines(table: Table, width: int, color: bool) -> Iterator[str]:
    def styled(text: str, look: Look | None) -> str:
        return look.render(text, color_system=ColorSystem.STANDARD) if color and look and text else text

    yield from (styled(line, _TITLE) for line in textwrap.wrap(table.title, width))
    if table.rows:
        widths = column_widths(table)
        while line_width(widths) > width and (words := _shrinkable(table, widths)):
            widths[max(words, key=lambda index: widths[index])] -= 1
        headers = (_padded(column.header, own, column) for column, own in zip(table.columns, widths, strict=True))
        yield styled((" " * GAP).join(headers).rstrip(), _RULE)
        yield styled((" " * GAP).join("─" * own for own in widths), _RULE)
        for row in table.rows:
            looks = [_LOOKS.get(text.style) for text in row]
            for line in _wrapped(row, widths):
                padded = map(_padded, line, widths, table.columns)
                yield (" " * GAP).join(map(styled, padded, looks)).rstrip()
    else:
        yield styled("  (none)", _RULE)
    for note in notes_of(table, "*"):
        lines = textwrap.wrap(note, max(20, width), initial_indent="  ", subsequent_indent="    ")
        yield from (styled(each, _RULE) for each in lines)


def _shrinkable(table: Table, widths: list[int]) -> list[int]:
    return [index for index, one in enumerate(table.columns) if one.align == "left" and widths[index] > _NARROWEST]


def _wrapped(row: Row, widths: list[int]) -> Iterable[tuple[str, ...]]:
    """Returns the lines of a row. A text that is too long for its column continues on the next line."""
    parts = []
    for text, width in zip(row, widths, strict=True):
        cell = ("*" if text.style is Style.BEST else "") + text.text
        # A name is broken only if it is longer than a line, so that the numbers in it stay whole.
        hyphens = any(len(word) > width for word in cell.split())
        parts.append([cell] if len(cell) <= width else textwrap.wrap(cell, width, break_on_hyphens=hyphens))
    return zip_longest(*parts, fillvalue="")


def _padded(text: str, width: int, column: Column) -> str:
    return text.ljust(width) if column.align == "left" else text.rjust(width)
