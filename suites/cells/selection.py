"""Says which cells a command or a test session works on, and refuses names that nobody has."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reports.records.cell import short_dtype
from suites.errors import SelectionError as SelectionError

if TYPE_CHECKING:
    from suites.cells.params import Case


@dataclass(frozen=True)
class Selection:
    """What is checked or timed; empty names mean all.

    Attributes:
        sources: Python files or modules with operators; none for the built-in ones.
        device: ``cpu`` or ``cuda``.
        profile: ``quick`` or ``full``.
        operators: Names of operators.
        backends: Names of backends.
        dtypes: Names of dtypes, such as ``float32`` or ``f32``.
        sizes: Nominal sizes.
    """

    sources: tuple[str, ...] = ()
    device: str = "cpu"
    profile: str = "quick"
    operators: tuple[str, ...] = ()
    backends: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()

    @classmethod
    def of(cls, options: Any, prefix: str = "") -> Selection:
        """The selection that parsed options hold; options that a command lacks keep their defaults.

        Args:
            options: An ``argparse.Namespace``.
            prefix: What the names of the options begin with.
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
        )

    def arguments(self) -> list[str]:
        """The same selection as options of the pytest plugin."""
        found = ["--kb-device", self.device, "--kb-profile", self.profile]
        for option, values in (
            ("operators", self.sources),
            ("operator", self.operators),
            ("backend", self.backends),
            ("dtype", self.dtypes),
            ("size", self.sizes),
        ):
            found += [part for value in values for part in (f"--kb-{option}", str(value))]
        return found

    def check(self) -> None:
        """Holds the names to those that there are.

        Raises:
            SelectionError: There is no such operator, backend or dtype.
        """
        from suites.backends.backend import Backend
        from suites.cells.catalogue import operators

        known = operators()
        _check("operator", self.operators, known)
        _check("backend", self.backends, [backend.id for backend in Backend])
        own = [operator for name, operator in known.items() if not self.operators or name in self.operators]
        dtypes = list(dict.fromkeys(dtype for operator in own for dtype in operator.dtypes))
        _check("dtype", self.dtypes, [*dtypes, *map(short_dtype, dtypes)], shown=dtypes)

    def has(self, case: Case) -> bool:
        """Whether a cell belongs to the selection; its profile decides elsewhere."""
        return (
            (not self.operators or case.operator.name in self.operators)
            and (not self.backends or case.backend.id in self.backends)
            and (not self.dtypes or case.dtype in self.dtypes or short_dtype(case.dtype) in self.dtypes)
            and (not self.sizes or case.size in self.sizes)
        )

    def __str__(self) -> str:
        """The options as typed, for messages."""
        words = [*self.sources]
        for option, values in (
            ("operator", self.operators),
            ("backend", self.backends),
            ("dtype", self.dtypes),
            ("size", self.sizes),
        ):
            words += [f"--{option} {value}" for value in values]
        return " ".join([*words, f"--device {self.device}"])


def _check(option: str, given: Sequence[str], known: Iterable[str], shown: Iterable[str] | None = None) -> None:
    names = list(known)
    for name in given:
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise SelectionError(
                f"--{option} {name}: there is none of this name.{hint} Known: {', '.join(shown or names)}."
            )
