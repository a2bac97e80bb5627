"""Implements ``dispatch``: measures the ways to call a kernel, records the run and prints its page."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from rich.console import Console

from reports import Record, RunWriter, Status, run_path
from reports.options import Exit
from reports.pages.run_page import page_of
from reports.render.page import show
from suites.cells.selection import SelectionError
from suites.dispatch.dispatch_header import dispatch_header
from suites.dispatch.platforms import Platform
from suites.dispatch.run import run

_PLATFORMS = {"cpu": ("suites.dispatch.paths_cpu", "CPU"), "cuda": ("suites.dispatch.paths_cuda", "CUDA")}


def dispatch(options: argparse.Namespace) -> Exit:
    """Runs the benchmark as the options of the command say.

    Returns:
        See :func:`exit_code`.

    Raises:
        SelectionError: There is no such path, or no such device.
        ReportError: The run or the file of ``--summary`` cannot be written.
    """
    module, attribute = _PLATFORMS[options.device]
    platform: Platform = getattr(import_module(module), attribute)
    known = [spec.name for spec in platform.paths]
    unknown = sorted(set(options.backend or ()) - set(known))
    if unknown:
        raise SelectionError(f"--backend {unknown[0]}: there is none of this name. Known: {', '.join(known)}.")
    try:
        header = dispatch_header(platform.name)
        # The writer comes first: if the folder cannot be written, the user learns it before the measurement.
        with RunWriter(run_path(header.run_id), header) as writer:
            with Console(stderr=True).status("starting") as status:
                results = run(
                    platform,
                    rounds=options.rounds,
                    sample_ms=options.sample_ms,
                    names=options.backend or None,
                    progress=status.update,
                )
            records = [writer.append(result) for result in results]
    except RuntimeError as error:
        raise SelectionError(f"dispatch cannot run on {platform.name}: {str(error).splitlines()[0]}") from error
    show(page_of(records), options)
    print(f"{len(records)} cells, recorded in {writer.path}; show them again: kernel-bridge show", file=sys.stderr)
    return exit_code(records, platform.required)


def exit_code(records: Sequence[Record], required: str) -> Exit:
    """Returns FINE, whatever the times: targets are reported, not asserted.

    Returns WRONG if a path gave a wrong result. Returns COULD_NOT_RUN if a path failed in another way, or if the
    required path did not run.
    """
    if any(record.status is Status.WRONG_VALUE for record in records):
        return Exit.WRONG
    ran = any(record.cell.backend == required and record.status is Status.PASSED for record in records)
    return Exit.FINE if ran and not any(record.status.failed for record in records) else Exit.COULD_NOT_RUN
