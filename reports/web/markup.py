"""Builds HTML from elements. Text that is not an element of this module is escaped: names in records are untrusted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape

from reports.render.visible import visible

_VOID = frozenset({"br", "col", "hr", "input", "meta", "wbr"})


class Markup(str):
    """HTML that needs no escaping, because this module built it."""

    __slots__ = ()


Content = str | Markup | None
Attributes = Mapping[str, str | int | bool | None]


def element(name: str, attributes: Attributes | None = None, *content: Content | Iterable[Content]) -> Markup:
    """Returns an element.

    Args:
        name: The name of the element.
        attributes: Its attributes. True makes an attribute without a value; False and None make none.
        *content: Its content, in order: text, elements, or several of these. None is left out.
    """
    return Markup(
        f"<{name}{_attributes(attributes or {})}>" + ("" if name in _VOID else f"{joined(*content)}</{name}>")
    )


def joined(*content: Content | Iterable[Content]) -> Markup:
    """Returns several contents after each other; text is escaped."""
    parts: list[str] = []
    for one in content:
        if isinstance(one, Markup):
            parts.append(str(one))
        elif isinstance(one, str):
            parts.append(escape(visible(one)))
        elif one is not None:
            parts.append(str(joined(*one)))
    return Markup("".join(parts))


def breakable(name: str) -> Markup:
    """Returns a name that can go on in a new line after an underscore."""
    first, *parts = name.split("_")
    return joined(first, [joined("_", element("wbr"), part) for part in parts])


def _attributes(attributes: Attributes) -> str:
    texts = []
    for name, value in attributes.items():
        if value is True:
            texts.append(f" {name}")
        elif value is not None and value is not False:
            texts.append(f' {name}="{escape(visible(str(value)))}"')
    return "".join(texts)
