"""Fuzzes the readers of run files, guided by the code that an input reaches.

``python -m suites.unit.reports.reader_fuzzing`` needs atheris; ``nox -s fuzz`` installs it. Every input is read as a
run file, plain and compressed. It must be read, or refused with an error that names its line. An input that breaks this
rule is written to a file, and its path printed.
"""

from __future__ import annotations

import argparse
import gzip
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path


def seeds(run: bytes) -> list[bytes]:
    """Inputs to begin with: a run, its lines, and an archive of it. A fuzzer alone would take long to find JSON."""
    lines = run.splitlines(keepends=True)
    return [run, *lines, b"".join(lines[:2]), gzip.compress(run), b"{}", b"\n", b""]


def main(arguments: Sequence[str] | None = None) -> int:
    """Fuzzes for a while; returns the exit code of atheris, which is not 0 if an input broke the rule."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=60, help="how long (default %(default)s)")
    parser.add_argument("--findings", default="build/fuzz", help="folder for inputs that failed (default %(default)s)")
    options = parser.parse_args(arguments)

    import atheris

    # What is imported here, and not before, counts the branches that it takes.
    with atheris.instrument_imports(include=["reports"]):
        from suites.unit.reports.hostile_runs import GOOD, require_readable
    findings = Path(options.findings)
    findings.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as corpus, tempfile.TemporaryDirectory() as scratch:
        for number, data in enumerate(seeds(GOOD)):
            Path(corpus, str(number)).write_bytes(data)
        atheris.Setup(
            [sys.argv[0], f"-max_total_time={options.seconds}", f"-artifact_prefix={findings}/", corpus],
            lambda data: require_readable(data, Path(scratch)),
        )
        atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
