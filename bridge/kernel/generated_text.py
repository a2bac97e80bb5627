"""Reads calls in the code that compilers generate."""

from __future__ import annotations


def split_arguments(text: str) -> list[str]:
    """The arguments in a text: the parts between the commas that are in no brackets.

    The last one has what follows a bracket that closes nothing in the text.
    """
    parts, depth = [""], 0
    for character in text:
        depth += (character in "([{<") - (character in ")]}>")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]
