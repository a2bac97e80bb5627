"""Renders tables as GitHub-flavoured Markdown."""

import re
from collections.abc import Iterable

from reports.render.layout import Style, Table, Text, notes_of, shown
from reports.render.visible import visible


def render(tables: Iterable[Table]) -> str:
    """Returns each table below a heading, with its notes as a list. The best of a row is bold."""
    return "\n".join(render_shown(shown(table)) for table in tables)


def render_shown(table: Table) -> str:
    """Returns a table whose texts are already visible, see `layout.shown`."""
    lines = [f"### {escape(table.title)}", ""]
    if table.rows:
        lines.append(_line([escape(column.header) for column in table.columns]))
        lines.append(_line(["---:" if column.align == "right" else "---" for column in table.columns]))
        lines += [_line([_cell(text) for text in row]) for row in table.rows]
    else:
        lines.append("(none)")
    notes = [f"- {escape(note)}" for note in notes_of(table, "bold")]
    return "\n".join([*lines, "", *notes, *([""] if notes else [])])


def _line(texts: list[str]) -> str:
    return f"| {' | '.join(texts)} |"


def _cell(text: Text) -> str:
    if text.style is Style.BEST:
        return f"**{escape(text.text)}**"
    # Bold means fastest. A failure is code.
    return _code(text.text) if text.style is Style.BAD else escape(text.text)


def escape(text: str) -> str:
    """Returns text on one line that Markdown shows unchanged. An underscore inside a word needs no escape."""
    one_line = " ".join(visible(part) for part in text.split())
    inline = re.sub(r"[\\`*<>|\[\]&~$]|(?<![^\W_])_|_(?![^\W_])", r"\\\g<0>", one_line)
    # An address would become a link.
    inline = re.sub(r"(?i)(?<=https|.http|..ftp)(?=://)|(?<=\bwww)(?=\.)", r"\\", " " * 2 + inline)[2:]
    # Marks of headings and lists only count at the beginning of a line.
    return re.sub(r"^(\d*)([#+-]+|[.)])(?=\s|$)", r"\1\\\2", inline)


def _code(text: str) -> str:
    """Returns text as code, in which only the bar between cells of a table is escaped."""
    if "`" in text or "\\" in text or not text.strip():
        return escape(text)
    return f"`{text}`".replace("|", "\\|")
