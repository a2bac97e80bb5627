"""Reads a name that a library does not promise to keep, and says so where the library has changed it."""

from __future__ import annotations

import functools
import importlib.metadata
import operator
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bridge.errors import AbiError, AbiWarning


@dataclass(frozen=True, eq=False)
class Library:
    """A library of which the bridge uses private names, patches or layouts.

    Attributes:
        name: The distribution, as pip knows it.
        oldest: The first version that the bridge was tried with.
        newest: The last one. A patch release of it counts as tried.
        uses: Why the bridge uses each name, patch or layout, in one sentence; and what would make it unnecessary.
    """

    name: str
    oldest: str
    newest: str
    uses: Mapping[str, str]

    @functools.cached_property
    def version(self) -> str:
        """The installed version. The first question warns, once, if nobody tried it.

        Warns:
            AbiWarning: It is newer than the newest version that was tried.
        """
        installed = importlib.metadata.version(self.name)
        newest = _numbers(self.newest)
        if _numbers(installed)[: len(newest)] > newest:
            warnings.warn(
                f"kernel-bridge was tried with {self.name} {self.oldest} to {self.newest}, and {installed} is "
                "installed. What the bridge does not understand of it becomes an AbiError.",
                AbiWarning,
                stacklevel=2,
            )
        return installed

    def get(self, owner: Any, path: str) -> Any:
        """The value at a path of attributes, such as ``_library._final_module``.

        Raises:
            AbiError: The library has no such attribute.
        """
        _ = self.version
        try:
            return operator.attrgetter(path)(owner)
        except AttributeError as error:
            kind = owner.__name__ if hasattr(owner, "__name__") else type(owner).__name__
            raise self.changed(f"{kind}.{path} is missing") from error

    def changed(self, what: str) -> AbiError:
        """The error that says in what the installed version differs from those that were tried."""
        return AbiError(
            f"kernel-bridge does not understand {self.name} {self.version}: {what}. Install a version from "
            f"{self.oldest} to {self.newest}."
        )


def reasons(docstring: str | None) -> dict[str, str]:
    """The list in the docstring of a library's file, as :attr:`Library.uses`: items of the form ``- `name`: why``."""
    items = re.findall(r"^- `([^`]+)`:\s+(.+(?:\n  .+)*)", docstring or "", re.MULTILINE)
    return {" ".join(name.split()): " ".join(why.split()) for name, why in items}


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])
