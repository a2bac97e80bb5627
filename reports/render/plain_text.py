"""Writes text in plain ASCII, for terminals and logs that show nothing else."""

import unicodedata

_SIGNS = {
    "\N{MULTIPLICATION SIGN}": "x",
    "\N{MICRO SIGN}": "u",
    "\N{GREEK SMALL LETTER MU}": "u",
    "\N{PLUS-MINUS SIGN}": "+/-",
    "\N{EN DASH}": "-",
    "\N{EM DASH}": "-",
    "\N{MINUS SIGN}": "-",
    "\N{HORIZONTAL ELLIPSIS}": "...",
    "\N{RIGHTWARDS ARROW}": "->",
    "\N{GREATER-THAN OR EQUAL TO}": ">=",
    "\N{LESS-THAN OR EQUAL TO}": "<=",
    "\N{BOX DRAWINGS LIGHT VERTICAL}": "|",
    "\N{BOX DRAWINGS LIGHT HORIZONTAL}": "-",
    "\N{BOX DRAWINGS LIGHT VERTICAL AND HORIZONTAL}": "+",
}


def to_ascii(text: str) -> str:
    """Returns text in which each sign beyond ASCII is replaced: `µs` by `us`, a dash by `-`, `é` by `e`.

    A sign without such a form is escaped as Python does it, so that two names stay apart.
    """
    if text.isascii():
        return text
    return "".join(map(_sign, text))


def can_show(encoding: str) -> bool:
    """Returns whether an encoding has the lines and signs of tables; the one of the locale C has not."""
    try:
        "".join(_SIGNS).encode(encoding)
    except (LookupError, UnicodeEncodeError):
        return False
    return True


def _sign(one: str) -> str:
    if one.isascii():
        return one
    if one in _SIGNS:
        return _SIGNS[one]
    base = unicodedata.normalize("NFKD", one).encode("ascii", "ignore").decode()
    # A digit of another script or an exponent would look like part of the number before it.
    return base if base.isalpha() else one.encode("ascii", "backslashreplace").decode()
