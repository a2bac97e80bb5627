"""Defines :class:`Selection`: which cells a command or a test session works on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reports.records.cell import short_dtype
from suites.errors import CatalogueError
from suites.errors import SelectionError as SelectionError

if TYPE_CHECKING:
    from suites.cells.case import Case


@dataclass(frozen=True)
class Selection:
    """The cells that are checked or timed; an empty tuple of names means all.

    Attributes:
        sources: Python files or modules with operators; none for the built-in ones.
        device: ``cpu`` or ``cuda``.
        profile: ``quick`` or ``full``.
        operators: Names of operators.
        backends: Names of backends.
        dtypes: Names of dtypes, such as ``float32`` or ``f32``.
        sizes: Nominal sizes.
        peers: Whether functions of other libraries are timed beside the kernels.
        part: The number of a part of the cells, from 1, and the number of parts; None for all cells.
    """

    sources: tuple[str, ...] = ()
    device: str = "cpu"
    profile: str = "quick"
    operators: tuple[str, ...] = ()
    backends: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    peers: bool = False
    part: tuple[int, int] | None = None

    @classmethod
    def of(cls, options: Any, prefix: str = "") -> Selection:
        """Reads a selection from parsed options. An option that the command does not have gets its default.

        Args:
            options: An ``argparse.Namespace``.
            prefix: Precedes the name of each option.
        """

        def names(option: str) -> tuple[Any, ...]:
            return tuple(getattr(options, prefix + option, None) or ())

        return cls(
            sources=names("operators"),
            device=getattr(options, f"{prefix}device"),
            profile=getattr(options, f"{prefix}profile", "quick"),
            operators=names("operator"),
            backends=names("backend"),
            dtypes=names("dtype"),
            sizes=names("size"),
            peers=bool(getattr(options, f"{prefix}peers", False)),
            part=getattr(options, f"{prefix}part", None),
        )

    def by_option(self) -> dict[str, list[str]]:
        """Returns the values by option, without device, profile and part, as the header of a run holds them."""
        by_name = {
            "source": self.sources, "operator": self.operators, "backend": self.backends, "dtype": self.dtypes,
            "size": self.sizes, "peers": ("yes",) if self.peers else (),
        }  # fmt: skip
        return {option: list(map(str, values)) for option, values in by_name.items() if values}

    def _words(self, prefix: str) -> list[str]:
        """Returns the options, without sources, device and profile, each with its prefix, as the user types them."""
        words = option_words(self.by_option(), prefix)
        return [*words, f"{prefix}part", part_text(self.part)] if self.part else words

    def arguments(self) -> list[str]:
        """Returns the same selection as options of the pytest plugin."""
        sources = [word for source in self.sources for word in ("--kb-operators", source)]
        return ["--kb-device", self.device, "--kb-profile", self.profile, *sources, *self._words("--kb-")]

    def has(self, case: Case) -> bool:
        """Tells whether a case fits the names and sizes; each table chooses its quick cells by itself."""
        return (
            (not self.operators or case.operator.name in self.operators)
            and (not self.backends or case.backend.id in self.backends)
            and (not self.dtypes or case.dtype in self.dtypes or short_dtype(case.dtype) in self.dtypes)
            and (not self.sizes or case.size in self.sizes)
        )

    def __str__(self) -> str:
        """Returns the options as the user types them, for messages."""
        return " ".join([*self.sources, *self._words("--"), f"--device {self.device}"])


def require_files(sources: Sequence[str]) -> None:
    """Requires that files with operators exist, before imports take seconds.

    Raises:
        CatalogueError: One does not.
    """
    for source in sources:
        if source.endswith(".py") and not Path(source).is_file():
            raise CatalogueError(f"{source}: there is no such file.")


def option_words(by_option: Mapping[str, Sequence[str]], prefix: str) -> list[str]:
    """Returns the values of :meth:`Selection.by_option`, without sources, as options, each with its prefix."""
    named = {option: values for option, values in by_option.items() if option not in ("source", "peers")}
    words = [word for option, values in named.items() for value in values for word in (prefix + option, value)]
    return [*words, f"{prefix}peers"] if "peers" in by_option else words


def part_text(part: tuple[int, int]) -> str:
    """Returns a part as the user types it: ``3/8``."""
    return "/".join(map(str, part))
