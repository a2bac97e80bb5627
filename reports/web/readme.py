"""Writes the pictures and the table of the README from the published records: ``python -m reports.web.readme``.

With ``--check``, it only says what is out of date; then it needs no plotting library.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from reports.errors import ReportError
from reports.web.readme_pictures import TITLES, digest, finished, newest_runs, picture_specs, recorded_digest
from reports.web.readme_table import measured_table, with_table
from reports.web.vega_bundle import svg_of


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns 0 if everything is current, 1 if something is out of date, 3 for an error."""
    parser = argparse.ArgumentParser("python -m reports.web.readme", description=__doc__)
    parser.add_argument("--check", action="store_true", help="only say what is out of date")
    parser.add_argument("--project", type=Path, default=Path(), metavar="DIR", help="the checkout (default: here)")
    options = parser.parse_args(arguments)
    try:
        stale = stale_files(options.project)
        if options.check:
            for name in stale:
                print(f"{name} is out of date. Run: nox -s pictures", file=sys.stderr)
            return 1 if stale else 0
        for name in stale:
            print(write(options.project, name))
    except (ReportError, OSError) as error:
        print(f"python -m reports.web.readme: {error}", file=sys.stderr)
        return 3
    return 0


def stale_files(project: Path) -> list[str]:
    """Returns the files that the published records would change: pictures, by their digest, and the README."""
    newest = newest_runs(project / "reports" / "published")
    found = []
    for name, spec in picture_specs(newest).items():
        path = project / "docs" / name
        if not path.is_file() or recorded_digest(path.read_text(encoding="utf-8")) != digest(spec):
            found.append(f"docs/{name}")
    readme = (project / "README.md").read_text(encoding="utf-8")
    if with_table(readme, measured_table(newest)) != readme:
        found.append("README.md")
    return found


def write(project: Path, name: str) -> str:
    """Writes a file of `stale_files`, and returns its path from the project.

    Raises:
        LibraryMissing: A picture needs the plotting library, which is not installed.
    """
    newest = newest_runs(project / "reports" / "published")
    path = project / name
    if name == "README.md":
        text = with_table(path.read_text(encoding="utf-8"), measured_table(newest))
    else:
        spec = picture_specs(newest)[path.name]
        text = finished(svg_of(spec), spec, TITLES[path.name])
    path.write_text(text, encoding="utf-8")
    return name


if __name__ == "__main__":
    sys.exit(main())
