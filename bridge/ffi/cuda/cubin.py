"""Reads the parameters of a kernel from its machine code (a cubin), for drivers that cannot tell them.

A cubin is a 64-bit ELF file. Its section ``.nv.info.KERNEL`` is a list of attributes. Each attribute starts with two
bytes, its format and its kind, and a 16-bit number. In the format of sized attributes this number counts the bytes that
follow. One attribute describes one parameter.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

_SECTION_TABLE, _SECTION_COUNTS = 0x28, 0x3A
_NO_BYTES = 8  # a section that takes no space in the file
_SIZED = 4
_PARAMETER = (0x17, 0x45)  # two versions of the attribute, with the size in the same bits
_SIZE_SHIFT = 18


def parameter_sizes(cubin: bytes, symbol: str) -> list[int] | None:
    """Bytes of each parameter of a kernel, in order; None if the machine code does not tell."""
    try:
        sections = dict(_sections(cubin))
        sizes = dict(_parameters(sections[f".nv.info.{symbol}"]))
    except (KeyError, ValueError, struct.error):
        return None
    return [sizes[index] for index in sorted(sizes)]


def _sections(cubin: bytes) -> Iterator[tuple[str, bytes]]:
    if not cubin.startswith(b"\x7fELF\x02"):
        raise ValueError("not a 64-bit ELF file")
    (table,) = struct.unpack_from("<Q", cubin, _SECTION_TABLE)
    entry_bytes, count, names_index = struct.unpack_from("<HHH", cubin, _SECTION_COUNTS)
    headers = [struct.unpack_from("<IIQQQQ", cubin, table + index * entry_bytes) for index in range(count)]
    if names_index >= count:
        raise ValueError("the names of the sections are missing")
    names = headers[names_index][4]
    for name, kind, _, _, start, size in headers:
        first = names + name
        text = cubin[first : cubin.index(b"\0", first)].decode("utf-8", "replace")
        yield text, b"" if kind == _NO_BYTES else cubin[start : start + size]


def _parameters(attributes: bytes) -> Iterator[tuple[int, int]]:
    """Index and size of each parameter."""
    at = 0
    while at + 4 <= len(attributes):
        form, kind, size = struct.unpack_from("<BBH", attributes, at)
        if form == _SIZED and kind in _PARAMETER:
            _, index, _, bits = struct.unpack_from("<IHHI", attributes, at + 4)
            yield index, bits >> _SIZE_SHIFT
        at += 4 + (size if form == _SIZED else 0)
