"""Defines the record of one mutant, and reads and writes the files of such records."""

import os
from pathlib import Path
from typing import Literal

import msgspec

from reports.errors import RecordError
from reports.records.header import Run
from reports.records.run_file import read_lines
from reports.records.status import Status

SUFFIX = ".mutants.ndjson"
"""How the name of such a file ends. It is no run: the commands for runs pass over it."""

Outcome = Literal["caught", "same code", "same results", "reviewed", "survived", "invalid", "undecided"]
"""How a mutant ended.

A check caught it. The compiler made the same code of it, so it is no fault. Its results had the same bits on many
inputs. Somebody read it and wrote down why it is no fault. No check caught it. The compiler refused it. It could not be
judged.
"""


class MutantResult(msgspec.Struct, frozen=True, kw_only=True, tag="mutant"):
    """The result of one mutant.

    Attributes:
        name: Names the mutant, the same in every run of the same source.
        language: The kernel language.
        kind: The kind of the fault.
        file: The file with the fault, from the root of the project.
        line: Its line there; in the text of a kernel in C++, its line in this text.
        diff: The changed lines.
        before: The right code.
        after: The code that replaces it.
        outcome: How it ended.
        operator: The operator that decided.
        backend: The backend of that operator.
        check: The check that caught it.
        cell: The id of the cell that caught it.
        status: How that cell ended.
        reason: What that cell found, or why the outcome is what it is.
        inputs: Inputs for which it gave the same bits as the right kernel.
        cells: Cells that ran.
        seconds: Seconds of processor time that it took; of time, if it brought its process down.
    """

    name: str
    language: str
    kind: str
    file: str
    line: int
    diff: str
    before: str
    after: str
    outcome: Outcome
    operator: str | None = None
    backend: str | None = None
    check: str | None = None
    cell: str | None = None
    status: Status | None = None
    reason: str | None = None
    inputs: int = 0
    cells: int = 0
    seconds: float = 0.0


class MutationHeader(msgspec.Struct, frozen=True, kw_only=True, tag="mutation"):
    """The first line of a file of mutants.

    Attributes:
        run: The machine, the code and the time.
        made: How many mutants there are in all.
        chosen: Names of the mutants of this run.
        seed: Seed of the choice; None if all were chosen.
    """

    run: Run
    made: int
    chosen: list[str]
    seed: int | None = None


class MutationEnd(msgspec.Struct, frozen=True, kw_only=True, tag="end"):
    """The last line of a complete file of mutants.

    Attributes:
        results: How many mutants it has.
    """

    results: int


class Mutation(msgspec.Struct, frozen=True):
    """A file of mutants.

    Attributes:
        header: Its first line.
        results: The result of each mutant, by its name.
        is_complete: Whether every chosen mutant has a result, and the last line says so.
    """

    header: MutationHeader
    results: dict[str, MutantResult]
    is_complete: bool


_LINE = msgspec.json.Decoder(MutantResult | MutationHeader | MutationEnd)


def append_line(path: Path, line: MutantResult | MutationHeader | MutationEnd) -> None:
    """Appends one line to a file of mutants, and has the system write it."""
    with path.open("ab") as file:
        file.write(msgspec.json.encode(line) + b"\n")
        file.flush()
        os.fsync(file.fileno())


def read_mutation(path: Path) -> Mutation:
    """Reads a file of mutants, which may be compressed (`.gz`).

    Raises:
        RunUnreadable: The file cannot be opened or decompressed, or is far larger than any run.
        RecordError: A line is no record of mutants, or the first line is no header.
    """
    lines = list(read_lines(path))
    header: MutationHeader | None = None
    results: dict[str, MutantResult] = {}
    ends: int | None = None
    for number, line in enumerate(lines, start=1):
        try:
            found = _LINE.decode(line)
        except msgspec.DecodeError as error:
            if number == len(lines):  # cut off by a crash
                break
            raise RecordError(f"{path}:{number}: no record of a mutant: {error}") from error
        if isinstance(found, MutationHeader):
            header = header or found
        elif isinstance(found, MutantResult):
            results[found.name] = found
        else:
            ends = found.results
    if header is None:
        raise RecordError(f"{path}: has no header, expected the file of a `mutate` run in its first line.")
    is_complete = ends == len(results) and set(header.chosen) <= set(results)
    return Mutation(header, results, is_complete)
