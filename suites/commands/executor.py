"""Runs a command in parts on the executor of the user (``--executor module:function``), and joins their records."""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import pkgutil
import secrets
import sys
import tempfile
import time
from asyncio import CancelledError
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from reports import Cell, ReportError, load_run, new_run_id, run_path
from suites.cells import catalogue
from suites.cells.parts import part_numbers
from suites.cells.runnable import require_known_names
from suites.cells.selection import Selection, SelectionError
from suites.checks.drawn.session_choices import MOST_SEED, SEED_FLAG
from suites.commands.merge import JoinedRun, command_words
from suites.commands.part import run_part
from suites.processes.interruption import INTERRUPTION
from suites.processes.preparation import make_cpu_devices
from suites.processes.progress import Progress
from suites.processes.resuming import find_resumed
from suites.processes.session_end import SessionEnd

TRIES = 3
"""How often a part is tried that is lost each time, while no other part arrives."""

CELLS_OF_PART, MOST_PARTS = 20, 256
"""Cells of a part, and most parts. The process of a part imports for five seconds before it runs its first cell."""

_AGAIN_S = 0.2
_LONGEST = 300


def run_on_executor(options: argparse.Namespace, selection: Selection) -> SessionEnd:
    """Runs a selection in parts; the result is that of the command without ``--executor``.

    The function that ``--executor`` names returns an object with ``submit``, whose results have ``done`` and
    ``result``. It is called again if ``submit`` fails, as it does after a worker of a process pool was killed.

    Args:
        options: The options of ``validate`` or ``bench``.
        selection: The cells.

    Raises:
        ReportError: There is no run to continue, or it was recorded without parts.
        SelectionError: There is no such function, no cell, or an option that parts cannot have.
    """
    if options.part or options.pytest:
        raise SelectionError(f"--executor takes no {'--part' if options.part else 'arguments after --'}.")
    make = _function(options.executor)
    catalogue.use(selection.sources)
    require_known_names(selection)
    groups = _groups(options.name, selection)
    if not groups:
        raise SelectionError(f"no cell fits {selection}.")
    weights = {group: len(cells) for group, cells in groups.items()}
    count = min(len(groups), MOST_PARTS, -(-sum(weights.values()) // CELLS_OF_PART))
    joined = JoinedRun(run_path(new_run_id()) if options.resume is None else find_resumed(options.resume))
    seed, more = None, ["--timeout", f"{options.timeout:g}"]
    if options.name == "validate":
        seed = secrets.randbelow(MOST_SEED) if options.seed is None else options.seed
        more += ["--jobs", str(1 if options.jobs is None else options.jobs)]
    elif options.processes:
        more += ["--processes", str(options.processes)]
    if options.resume is not None:
        count, seed = joined.count, joined.first.flags.get(SEED_FLAG)
    parts: dict[str, list[Cell]] = {}
    for group, number in part_numbers(weights, count).items():
        parts.setdefault(f"{number}/{count}", []).extend(groups[group])
    words = command_words(options.name, selection.by_option(), selection.device, selection.profile, seed)
    return _Session(make, [*words, *more], parts, joined).run()


def _groups(command: str, selection: Selection) -> Mapping[Any, Sequence[Cell]]:
    """Returns the cells of a selection by the groups that a part does not split."""
    if command == "validate":
        from suites.validate.check_items import checked_groups

        make_cpu_devices()
        return checked_groups(selection)
    from suites.timing.timed_selection import timed_groups

    return {group: [case.cell for case in cases] for group, cases in timed_groups(selection).items()}


@dataclass
class _Session:
    """Submits the parts that are left, and joins those that arrive."""

    make: Callable[[], Any]
    words: Sequence[str]
    parts: Mapping[str, Sequence[Cell]]
    joined: JoinedRun
    executor: Any = None
    waiting: dict[str, Any] = field(default_factory=dict)

    def run(self) -> SessionEnd:
        """Runs until every part has arrived or is given up, or the user interrupts."""
        refusal, interrupted, path = None, False, self.joined.path
        try:
            with (
                INTERRUPTION.raises(),
                contextlib.closing(self.joined),
                tempfile.TemporaryDirectory(prefix="kernel-bridge-") as scratch,
            ):
                self._run(Path(scratch, "part.jsonl.gz"))
        except KeyboardInterrupt:
            interrupted = True
        except (ReportError, SelectionError) as error:
            refusal = str(error)
        self._cancel()
        return SessionEnd(
            path=path if path.exists() else None, refusal=refusal, interrupted=interrupted,
            left=sum(cell.key not in self.joined.done for cells in self.parts.values() for cell in cells),
        )  # fmt: skip

    def _run(self, file: Path) -> None:
        if multiprocessing.get_start_method(allow_none=True) is None:
            multiprocessing.set_start_method("spawn")  # JAX has started threads here, so this process must not fork
        for part in self._left():
            self._submit(part)
        with Progress("parts", "part") as screen:
            screen.total = len(self.waiting)
            self._take(file, screen)
        if lost := self._left():
            raise SelectionError(f"after {TRIES} tries, these parts are missing: {', '.join(lost)}")

    def _left(self) -> list[str]:
        return [part for part in self.parts if part not in self.joined.parts]

    def _submit(self, part: str) -> None:
        failure = None
        for _ in range(2):  # a process pool is broken for good after a worker was killed
            try:
                self.executor = self.executor or self.make()
                self.waiting[part] = self.executor.submit(run_part, [*self.words, "--part", part], os.getcwd())
                return
            except Exception as error:
                self.executor, failure = None, error
        raise SelectionError(f"the executor takes no part: {_text(failure)}")

    def _take(self, file: Path, screen: Progress) -> None:
        lost: Counter[str] = Counter()
        while self.waiting:
            for part in [part for part, future in self.waiting.items() if future.done()]:
                try:
                    file.write_bytes(self.waiting.pop(part).result())
                    run = load_run(file)
                    if run.end is None:
                        raise RuntimeError("its session ended early")
                except (Exception, CancelledError) as error:
                    lost[part] += 1
                    again = lost[part] < TRIES
                    then = "it is tried again" if again else f"it was tried {TRIES} times"
                    screen.print(f"part {part} is lost: {_text(error)}; {then}")
                    if again:
                        self._submit(part)
                else:
                    lost.clear()
                    self.joined.check(run)
                    self.joined.write(run)
                    screen.step("part")
            screen.show("waiting for the executor")
            time.sleep(_AGAIN_S)

    def _cancel(self) -> None:
        """After an early end, takes back what has not begun, and ends the workers that this process has started."""
        for future in self.waiting.values():
            with contextlib.suppress(Exception):
                future.cancel()
        for worker in multiprocessing.active_children() if self.waiting else ():
            worker.kill()


def _function(name: str) -> Callable[[], Any]:
    """Returns the function of ``module:function``; a module may lie in the current folder."""
    sys.path.append(os.getcwd())
    try:
        return cast("Callable[[], Any]", pkgutil.resolve_name(name))
    except Exception as error:
        raise SelectionError(
            f"--executor {name}: {_text(error)}. Give a module and a function in it that returns an executor, such as"
            " cluster:make."
        ) from error


def _text(error: BaseException | None) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:_LONGEST]
