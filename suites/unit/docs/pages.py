"""The README and the pages of the documentation site as data: their code blocks, headings and links.

An HTML comment right before a block says what is special about it: ``<!-- gpu -->`` needs an NVIDIA GPU,
``<!-- needs: NAME -->`` a module that tests need not have, and ``<!-- file: NAME -->`` is the content of a file that
later examples use.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[3]
README = PROJECT / "README.md"
PAGES = (README, *sorted((PROJECT / "docs").glob("*.md")), *sorted((PROJECT / "docs" / "api").glob("*.md")))

_FENCE = re.compile(r"^(`{3,})(\S*)[^\n]*\n(.*?)^\1\s*$", re.MULTILINE | re.DOTALL)
_MARK = re.compile(r"<!-- (?:(gpu)|file: (\S+)|needs: (\S+)) -->\s*\Z")
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)|(?:href|src)=\"([^\"]+)\"")


@dataclass(frozen=True)
class Block:
    """A fenced block of code.

    Attributes:
        language: What stands after the fence.
        line: The number of its first line of code, from 1.
        code: Its lines.
        gpu: Whether it needs an NVIDIA GPU.
        file: The name of the file that it shows, if it shows one.
        needs: The module without which it does not run here, if there is one.
    """

    language: str
    line: int
    code: str
    gpu: bool = False
    file: str | None = None
    needs: str | None = None


def read(page: Path) -> str:
    """The text of a page."""
    return page.read_text(encoding="utf-8")


def blocks(page: Path, language: str) -> list[Block]:
    """The blocks of a language, in order."""
    text = read(page)
    found = []
    for match in _FENCE.finditer(text):
        if match[2] == language:
            mark = _MARK.search(text[: match.start()])
            line = text.count("\n", 0, match.start(3)) + 1
            gpu, file, needs = mark.groups() if mark else (None, None, None)
            found.append(Block(language, line, match[3], gpu is not None, file, needs))
    return found


def prose(page: Path) -> str:
    """The text without its fenced blocks."""
    return _FENCE.sub("", read(page))


def links(page: Path) -> Iterator[str]:
    """The targets of links and images."""
    for match in _LINK.finditer(re.sub(r"`[^`\n]*`", "``", prose(page))):
        yield match[1] or match[2]


def anchors(page: Path) -> set[str]:
    """The anchors that headings have, as GitHub and MyST make them."""
    headings = re.findall(r"^#{1,6} +(.*?)\s*$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
