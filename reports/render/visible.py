"""Escapes characters that would control a terminal or a page."""

import unicodedata

_CATEGORIES = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Control characters; invisible ones, which turn or hide the text after them; halves of characters; line separators."""

_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def visible(text: str) -> str:
    """Returns text on one line, in which control characters and invisible ones are escaped as in Python.

    A name from a file can hold any character, for example one that begins a command of the terminal, moves the cursor,
    or reverses the direction of the text.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escaped(character) for character in text)


def _escaped(character: str) -> str:
    if unicodedata.category(character) not in _CATEGORIES:
        return character
    if character in _SHORT:
        return _SHORT[character]
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
