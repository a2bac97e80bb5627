"""The command line: ``python -m suites.dispatch``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from rich.console import Console

from suites.dispatch import record, report
from suites.dispatch.platforms import Platform
from suites.dispatch.run import run

_PLATFORMS = {"cpu": ("suites.dispatch.paths_cpu", "CPU"), "cuda": ("suites.dispatch.paths_cuda", "CUDA")}
_COULD_NOT_RUN = 3
_NARROWEST = 100


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the benchmark and prints the report.

    Returns:
        0 whatever the timing, 1 if a path gave a wrong result, 3 if the benchmark could not run.
    """
    options = _parser().parse_args(arguments)
    platform = _platform(options.platform)
    known = [spec.name for spec in platform.paths]
    unknown = sorted(set(options.paths or ()) - set(known))
    console = Console()
    messages = Console(stderr=True)
    if unknown:
        messages.print(f"unknown paths {', '.join(unknown)}; {platform.name} has {', '.join(known)}")
        return _COULD_NOT_RUN
    try:
        with messages.status("starting") as status:
            done = run(
                platform,
                rounds=options.rounds,
                sample_ms=options.sample_ms,
                names=options.paths,
                progress=status.update,
            )
    except RuntimeError as error:
        messages.print(f"dispatch could not run on {platform.name}: {error}")
        return _COULD_NOT_RUN
    if options.json:
        record.write_json(done, options.json)
    if options.format == "markdown":
        print(report.render_markdown(done), end="")
    else:
        if not console.is_terminal:
            console = Console(width=max(_NARROWEST, console.width))
        report.render_terminal(done, console)
    return record.exit_code(done.paths, platform.required)


def _platform(name: str) -> Platform:
    module, attribute = _PLATFORMS[name]
    platform: Platform = getattr(import_module(module), attribute)
    return platform


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"got {value}, expected at least 1")
    return value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m suites.dispatch", description="What does one call cost?")
    parser.add_argument("--platform", choices=tuple(_PLATFORMS), default="cpu")
    parser.add_argument("--rounds", type=_positive, default=100, help="samples per cell (default %(default)s)")
    parser.add_argument("--sample-ms", type=float, default=5.0, help="length of one sample (default %(default)s)")
    parser.add_argument("--paths", nargs="+", metavar="NAME", help="compare these only")
    parser.add_argument("--format", choices=("terminal", "markdown"), default="terminal")
    parser.add_argument("--json", metavar="PATH", help="write the run with all samples to this file")
    return parser


if __name__ == "__main__":
    sys.exit(main())
