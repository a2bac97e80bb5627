"""Writes a run to a file or folder in the format that its name asks for."""

import json
from collections.abc import Sequence
from pathlib import Path

from reports.errors import ReportError
from reports.formats.asv_results import write_asv_results
from reports.formats.junit_xml import junit_document
from reports.formats.pytest_benchmark_json import pytest_benchmark_document
from reports.records.record import Record
from reports.records.run_file import RunFile

ENDINGS = {
    ".benchmark.json": "the JSON of pytest-benchmark",
    ".xml": "JUnit XML",
    "/": "a folder with results of asv",
}
"""The endings of names that are written here, and what they stand for."""


def is_run_format(path: str) -> bool:
    """Returns whether a name stands for one of the formats of a run, and not of a frame."""
    return path.endswith(tuple(ENDINGS))


def export_run(run: RunFile, records: Sequence[Record], path: str) -> None:
    """Writes the records of a run to `path`, see `ENDINGS`.

    Args:
        run: The run.
        records: The records that were selected.
        path: The name of the file, or of the folder, which ends with a slash.

    Raises:
        ReportError: The run has nothing that the format can hold, or the file cannot be written.
    """
    if path.endswith("/"):
        write_asv_results(records, path)
        return
    if path.endswith(".xml"):
        text = junit_document(run, records)
    else:
        document = pytest_benchmark_document(records)
        if not document["benchmarks"]:
            raise ReportError(f"--export {path}: this run has no times. Export a run of bench or dispatch.")
        text = json.dumps(document, indent=1) + "\n"
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ReportError(f"--export {path}: cannot be written: {error.strerror or error}.") from error
