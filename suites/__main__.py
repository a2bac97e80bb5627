"""``python -m suites bench``: checks and times every cell of a profile, records it, and ends with a table.

Exit codes: 0 fine; 1 a cell is wrong or failed; 3 the session could not run.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pytest


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    options, more = _parser().parse_known_args(arguments)
    command = [str(Path(__file__).parent / "test_speed.py"), "-q", "--no-header", "-p", "no:cacheprovider"]
    command += ["--profile", options.profile, "--device", options.device]
    command += [part for name in options.operator for part in ("--operator", name)]
    command += [part for name in options.backend for part in ("--backend", name)]
    command += ["--resume", options.resume] if options.resume else []
    code = pytest.main(command + more)
    # A cell that is wrong is a finding; anything else that keeps the session from running is not.
    return {pytest.ExitCode.OK: 0, pytest.ExitCode.TESTS_FAILED: 1}.get(pytest.ExitCode(code), 3)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m suites", description=__doc__, epilog="Further arguments go to pytest.")
    bench = parser.add_subparsers(required=True, metavar="COMMAND").add_parser(
        "bench", help="check and time every cell of a profile", epilog="Further arguments go to pytest."
    )
    bench.add_argument(
        "--profile", choices=("quick", "full"), default="quick", help="quick: under 3 minutes on 2 cores"
    )
    bench.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where the cells run")
    bench.add_argument("--operator", action="append", default=[], help="only this operator; may be repeated")
    bench.add_argument("--backend", action="append", default=[], help="only this backend; may be repeated")
    bench.add_argument("--resume", metavar="RUN", help="continue this recorded run: a path, a run id, or latest")
    return parser


if __name__ == "__main__":
    sys.exit(main())
