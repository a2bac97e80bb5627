"""Implements ``dispatch``: measures the ways to call a kernel, and prints the report."""

from __future__ import annotations

import argparse
from importlib import import_module

from rich.console import Console

from suites.dispatch import record, report
from suites.dispatch.platforms import Platform
from suites.dispatch.run import run
from suites.errors import SelectionError

_PLATFORMS = {"cpu": ("suites.dispatch.paths_cpu", "CPU"), "cuda": ("suites.dispatch.paths_cuda", "CUDA")}


def dispatch(options: argparse.Namespace) -> int:
    """Runs the benchmark as the options of the command say.

    Returns:
        0 whatever the times, 1 if a path gave a wrong result, 3 if the required path could not be measured.

    Raises:
        SelectionError: There is no such path, or no such device.
    """
    module, attribute = _PLATFORMS[options.device]
    platform: Platform = getattr(import_module(module), attribute)
    known = [spec.name for spec in platform.paths]
    unknown = sorted(set(options.backend or ()) - set(known))
    if unknown:
        raise SelectionError(f"--backend {unknown[0]}: there is none of this name. Known: {', '.join(known)}.")
    try:
        with Console(stderr=True).status("starting") as status:
            done = run(
                platform,
                rounds=options.rounds,
                sample_ms=options.sample_ms,
                names=options.backend or None,
                progress=status.update,
            )
    except RuntimeError as error:
        raise SelectionError(f"dispatch cannot run on {platform.name}: {str(error).splitlines()[0]}") from error
    report.print_run(done, options)
    return record.exit_code(done.paths, platform.required)
