"""Records which elements of its arrays a kernel reads and writes, and decides which arrays may share memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from bridge.source.affine import Access, Affine, Counter, are_apart
from bridge.source.symbols import Array, Object, Unclear, Unknown, is_exact, reads_of


@dataclass(frozen=True)
class Path:
    """What has happened to elements on one way through the source.

    Attributes:
        written: Arrays that are written.
        reads: The reads of each array, by number.
    """

    written: frozenset[int] = frozenset()
    reads: frozenset[tuple[int, int]] = frozenset()

    def merged(self, other: Path) -> Path:
        """What may have happened after either of two ways."""
        return Path(self.written | other.written, self.reads | other.reads)


@dataclass
class ElementLog:
    """The reads and writes of a kernel.

    Attributes:
        ranks: Rank of each array.
        largest_index: The largest index that does not overflow.
        path: What has happened so far on the way to the present statement.
    """

    ranks: Sequence[int]
    largest_index: int
    path: Path = field(default_factory=Path)
    _accesses: set[Access] = field(default_factory=set)
    _written: set[int] = field(default_factory=set)
    _read_late: set[tuple[int, int]] = field(default_factory=set)
    _read_count: int = 0

    def read(self, array: Array, index: Any, loops: tuple[Counter, ...]) -> Unknown:
        """Records that an element is read; returns it."""
        self._use(array, index, loops)
        self._read_late |= {(array.number, other) for other in self.path.written}
        self._read_count += 1
        self.path = self.path.merged(Path(reads=frozenset({(array.number, self._read_count)})))
        return Unknown(frozenset({self._read_count}))

    def write(self, array: Array, index: Any, loops: tuple[Counter, ...], value: Any, *, may_move: bool) -> None:
        """Records that an element is written.

        Args:
            array: The array.
            index: The index of the element.
            loops: The counters of the loops around it.
            value: Its new value.
            may_move: Whether the compiler may do so before other elements are read that the value does not need.
        """
        self._use(array, index, loops)
        self._written.add(array.number)
        self.path = self.path.merged(Path(written=frozenset({array.number})))
        if may_move:
            needed = reads_of(value)
            self._read_late |= {(other, array.number) for other, read in self.path.reads if read not in needed}

    def may_share(self, one: int, other: int, threads: Sequence[Counter]) -> bool:
        """Whether an array that is only read may have the memory of one that is written.

        Args:
            one: The array that is read.
            other: The array that is written.
            threads: The counters of the threads.
        """
        used = [access for access in self._accesses if access.array in (one, other)]
        return (
            self.ranks[one] == self.ranks[other]
            and other in self._written
            and one not in self._written
            and (one, other) not in self._read_late
            and are_apart(used, threads)
        )

    def _use(self, array: Array, index: Any, loops: tuple[Counter, ...]) -> None:
        indices = index if isinstance(index, tuple) else (index,)
        if len(indices) != self.ranks[array.number] or any(isinstance(each, Object) for each in indices):
            raise Unclear  # a view
        known: tuple[Affine | None, ...] = tuple(
            each if is_exact(each, self.largest_index) else None for each in indices
        )
        self._accesses.add(Access(array.number, known, loops))
