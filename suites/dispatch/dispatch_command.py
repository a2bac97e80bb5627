"""Implements ``dispatch``: measures the ways to call a kernel, records the run and prints its page."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module

from rich.console import Console

from reports import RunWriter, judge, load_run, run_path
from reports.options import Exit, again
from reports.pages.run_page import page_of
from reports.render.page import show
from suites.cells.selection import SelectionError
from suites.dispatch.dispatch_header import dispatch_header
from suites.dispatch.platforms import Platform
from suites.dispatch.run import cells_of, run

_PLATFORMS = {"cpu": ("suites.dispatch.paths_cpu", "CPU"), "cuda": ("suites.dispatch.paths_cuda", "CUDA")}


def dispatch(options: argparse.Namespace) -> Exit:
    """Runs the benchmark as the options of the command say.

    Returns:
        WRONG if a path gave a wrong result or failed; COULD_NOT_RUN if the required path did not run; else FINE,
        whatever the times: targets are reported, not asserted.

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
            cells = cells_of(platform)
            must_run = [cell for cell in cells if cell.backend == platform.required]
            writer.begin(must_run, [cell for cell in cells if cell.backend != platform.required])
            with Console(stderr=True).status("starting") as status:
                results = run(
                    platform,
                    rounds=options.rounds,
                    sample_ms=options.sample_ms,
                    names=options.backend or None,
                    progress=status.update,
                )
            for result in results:
                writer.append(result)
            writer.end(int(judge(load_run(writer.path), has_ended=True).exit))
    except RuntimeError as error:
        raise SelectionError(f"dispatch cannot run on {platform.name}: {str(error).splitlines()[0]}") from error
    recorded = load_run(writer.path)
    judgement = judge(recorded)
    show(page_of(recorded.records, doubts=judgement.lines), options)
    count = len(recorded.records)
    print(f"{count} cells, recorded in {writer.path}; show them again: {again('show')}", file=sys.stderr)
    return judgement.exit
