"""Renders tables as GitHub-flavoured Markdown. Its columns are aligned, so the source is readable too."""

import re
from collections.abc import Iterable

from reports.render.layout import Column, Style, Table, Text, fit, shown
from reports.render.visible import visible

WIDTH = 120
"""The width of a table in characters. A wider table scrolls sideways on a page."""


def render(tables: Iterable[Table], width: int = WIDTH, *, ascii_only: bool = False) -> str:
    """Returns each table below a heading, with its notes as a list. The best of a row is bold."""
    return "\n".join(render_shown(shown(table, ascii_only=ascii_only), width) for table in tables)


def render_shown(table: Table, width: int = WIDTH, *, padded: bool = True) -> str:
    """Returns a table whose texts are already visible, see `layout.shown`.

    Args:
        table: The table.
        width: Characters of a line; a wider table loses optional columns or is split.
        padded: Whether columns are aligned in the source too, which takes more bytes.
    """
    margin = _group_width(table)
    return "\n".join(_render(part, padded) for part in fit(table, width - margin, margin))


def _render(table: Table, padded: bool) -> str:
    lines = [f"### {escape(table.title)}", ""]
    if table.rows:
        lines += _grid(table, padded)
    else:
        lines.append("(none)")
    lines.append("")
    marked = any(text.style is Style.BEST for row in table.rows for text in row.cells)
    lines += [f"- **bold**: {table.best}"] if marked and table.notes else []
    lines += [f"- {escape(note)}" for note in table.notes]
    return "\n".join(lines) + ("\n" if table.notes else "")


def _grid(table: Table, padded: bool) -> list[str]:
    grouped = any(row.group for row in table.rows)
    aligns = (["left"] if grouped else []) + [column.align for column in table.columns]
    grid = [([escape(table.row_group)] if grouped else []) + _headers(table.columns)]
    group = ""
    for row in table.rows:
        label = [f"**{escape(row.group)}**" if row.group != group else ""] if grouped else []
        group = row.group
        grid.append(label + [_cell(text) for text in row.cells])
    widths = [max(3, *(len(line[i]) for line in grid)) if padded else 2 for i in range(len(aligns))]
    rule = [
        "-" * (width - 1) + ":" if align == "right" else "-" * width
        for align, width in zip(aligns, widths, strict=True)
    ]
    lines = [
        [
            text.rjust(width) if align == "right" else text.ljust(width)
            for text, align, width in zip(line, aligns, widths, strict=True)
        ]
        for line in grid
    ]
    return [f"| {' | '.join(line)} |" for line in [lines[0], rule, *lines[1:]]]


def _group_width(table: Table) -> int:
    """Returns the width of the first column, which names the groups of rows."""
    return max((len(row.group) + 3 for row in table.rows if row.group), default=0)


def _headers(columns: tuple[Column, ...]) -> list[str]:
    """Returns the headers. Markdown has one header row: the first column of a group has the name of the group too."""
    headers = []
    group = ""
    for column in columns:
        named = f"{column.group} {column.header}" if column.group not in ("", group) else column.header
        headers.append(escape(named))
        group = column.group
    return headers


def _cell(text: Text) -> str:
    shown_text = escape(text.text)
    if text.style is Style.BEST:
        return f"**{shown_text}**"
    # Bold means fastest. A failure is code.
    return _code(text.text) if text.style is Style.BAD else shown_text


def escape(text: str) -> str:
    """Returns text on one line that Markdown shows unchanged. An underscore inside a word needs no escape."""
    one_line = " ".join(visible(part) for part in text.split())
    inline = re.sub(r"[\\`*<>|\[\]&~$]|(?<![^\W_])_|_(?![^\W_])", r"\\\g<0>", one_line)
    # An address would become a link.
    inline = re.sub(r"(?i)(?<=https|.http|..ftp)(?=://)|(?<=\bwww)(?=\.)", r"\\", " " * 2 + inline)[2:]
    # What begins a heading or a list only counts at the beginning of a line.
    return re.sub(r"^(\d*)([#+-]+|[.)])(?=\s|$)", r"\1\\\2", inline)


def _code(text: str) -> str:
    """Returns text as code, in which nothing is escaped but the line that ends a cell of a table."""
    if "`" in text or "\\" in text or not text.strip():
        return escape(text)
    return f"`{text}`".replace("|", "\\|")
