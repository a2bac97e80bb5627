"""Identifies CUDA C++ sources with the content of all files that they include, so that an edited header is noticed."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

_TEXT = re.compile(
    r"""
    (?P<comment>//[^\n]*|/\*.*?(?:\*/|\Z))
  | (?<!\w)(?:u8|[uUL])?R"(?P<end>[^()\\\s]{0,16})\(.*?\)(?P=end)"
  | "(?:\\.|[^"\\\n])*"
  | '(?:\\.|[^'\\\n])*'
    """,
    re.VERBOSE | re.DOTALL,
)
_DIRECTIVE = re.compile(r"^\s*(?:\#|%:)\s*(\w+)(.*)$", re.MULTILINE)
_QUESTION = re.compile(r"\b__has_(?:include|include_next|embed)\b(.*)")
_FILE = re.compile(r"""\s*(?:<([^>\n]+)>|"([^"\n]+)")""")


def included_by(source: str, folders: Sequence[str], of_missing: Callable[[], Any] = lambda: None) -> str | None:
    """A digest of all files that a source includes, the same wherever they lie.

    None if only a compiler can tell which these are, as for ``#include MACRO``.

    A file counts also if the source includes it in a branch that is not compiled, or finds another file first. So the
    digest may change without need, but the compiled code never changes without the digest. What a file of the CUDA
    toolkit includes counts by the version of the toolkit: there are thousands of these files, and nobody edits them.

    Args:
        source: The source.
        folders: Folders to look in, also for includes in quotes; for these the including file's folder comes first.
        of_missing: Called for a file that is in none of them, and comes with the compiler: identifies its content.
    """
    sha = hashlib.sha256()
    seen: set[str] = set()
    pending = [(source, tuple(folders))]
    for text, places in pending:
        for name in _names(text):
            if name is None:
                return None
            found = [(place, path) for place in places if os.path.isfile(path := os.path.join(place, name))]
            _feed(sha, name.encode(), str(len(found)).encode(), b"" if found else repr(of_missing()).encode())
            for place, path in ((place, os.path.realpath(path)) for place, path in found):
                if path in seen:
                    continue
                seen.add(path)
                content = _read(path)
                toolkit = _toolkit(place)
                _feed(sha, content, toolkit or b"")
                if toolkit is None:
                    pending.append((content.decode("latin-1"), (os.path.dirname(path), *folders)))
    return sha.hexdigest()


def header_versions(package: str) -> tuple[str, ...]:
    """The versions of the headers that come with a package and with NVRTC."""
    from cuda.bindings import nvrtc

    return importlib.metadata.version(package), *map(str, nvrtc.nvrtcVersion()[1:])


_VERSIONS = {"cuda.h": b"#define CUDA_VERSION", "cub/version.cuh": b"#define CUB_VERSION"}
"""Files that tell the version of a part of the toolkit, and what they contain."""


def _toolkit(folder: str) -> bytes | None:
    """The version of the toolkit whose headers are in a folder; None if it holds other files."""
    for name, mark in _VERSIONS.items():
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            version = _version(path, os.stat(path).st_mtime_ns, mark)
            if version is not None:
                return version
    return None


@functools.lru_cache(maxsize=64)
def _version(path: str, changed: int, mark: bytes) -> bytes | None:
    content = _read(path)
    return hashlib.sha256(content).digest() if mark in content else None


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _feed(sha: Any, *parts: bytes) -> None:
    for part in parts:
        sha.update(len(part).to_bytes(8, "little") + part)


def _names(source: str) -> Iterator[str | None]:
    """The files that a source includes or asks for, as they are spelled; None for one that it computes."""
    spliced = re.sub(r"\\\r?\n", "", source)
    text = _TEXT.sub(lambda match: " " if match["comment"] else match[0], spliced)
    for directive, rest in _DIRECTIVE.findall(text):
        if directive in ("include_next", "import"):
            yield None
        if directive in ("include", "embed"):
            yield _spelled(rest)
    for rest in _QUESTION.findall(text):
        # A macro may pass the question on without a name: #ifdef __has_include.
        for asked in re.findall(r"^\s*\((.*)", rest):
            yield _spelled(asked)


def _spelled(rest: str) -> str | None:
    match = _FILE.match(rest)
    return None if match is None else match[1] or match[2]
