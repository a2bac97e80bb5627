"""Writes the numbers of a page as CSV, JSON or Parquet."""

import json
from collections.abc import Collection
from importlib.util import find_spec
from pathlib import Path

import pandas as pd

from reports.errors import ReportError
from reports.render.visible import visible

_SUFFIXES = (".csv", ".json", ".parquet")


def frame_csv(frame: pd.DataFrame) -> str:
    """Returns a frame as CSV. Control characters in texts are escaped, so that each row takes one line."""
    texts = frame.map(lambda value: visible(value) if isinstance(value, str) else value)
    return str(texts.rename(columns=visible).to_csv(index=False))


def frame_json(frame: pd.DataFrame, json_columns: Collection[str] = ()) -> str:
    """Returns a frame as a JSON list of objects, one per row. A missing value is null.

    Args:
        frame: The frame.
        json_columns: Columns that hold JSON text. They become lists and objects.
    """
    rows = [
        {
            str(name): None if _missing(value) else json.loads(value) if name in json_columns else value
            for name, value in row.items()
        }
        for row in frame.to_dict("records")
    ]
    return json.dumps(rows, indent=1) + "\n"


def check_export(path: str | None) -> None:
    """Checks that the ending of a file names a format that can be written, before the frame is made.

    Raises:
        ReportError: The ending is not known, or a library is missing.
    """
    if not path:
        return
    suffix = Path(path).suffix
    if suffix not in _SUFFIXES:
        raise ReportError(
            f"--export {path}: got the ending {suffix!r}, expected {', '.join(_SUFFIXES)}; show also takes"
            " .benchmark.json, .xml and a folder."
        )
    if suffix == ".parquet" and find_spec("pyarrow") is None:
        raise ReportError(f"--export {path}: Parquet needs pyarrow. Run: pip install 'kernel-bridge[parquet]'")


def export(frame: pd.DataFrame, json_columns: Collection[str], path: str) -> None:
    """Writes a frame to a file; its ending decides the format.

    Raises:
        ReportError: The ending is not known, a library is missing, or the file cannot be written.
    """
    check_export(path)
    try:
        if path.endswith(".parquet"):
            frame.to_parquet(path, engine="pyarrow", index=False)
        else:
            text = frame_csv(frame) if path.endswith(".csv") else frame_json(frame, json_columns)
            Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ReportError(f"--export {path}: cannot be written: {error.strerror or error}.") from error


def _missing(value: object) -> bool:
    # NaN is not equal to itself.
    return value is None or value != value
