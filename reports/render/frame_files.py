"""Writes the numbers of a page as CSV or JSON."""

import json
from collections.abc import Collection

import pandas as pd

from reports.render.visible import visible


def frame_csv(frame: pd.DataFrame) -> str:
    """Returns a frame as CSV.

    Control characters in texts are escaped, so that each row is one line. A text that a spreadsheet would read as a
    formula gets an apostrophe in front.
    """
    texts = frame.map(lambda value: _plain(value) if isinstance(value, str) else value)
    return str(texts.rename(columns=_plain).to_csv(index=False))


def _plain(text: str) -> str:
    shown = visible(text)
    return f"'{shown}" if shown.startswith(("=", "+", "-", "@")) else shown


def frame_json(frame: pd.DataFrame, json_columns: Collection[str] = ()) -> str:
    """Returns a frame as a JSON list of objects, one per row. A missing value is null.

    Args:
        frame: The frame.
        json_columns: Columns that hold JSON text. They become lists and objects.
    """
    rows = [
        {
            str(name): None if value is None or value != value else json.loads(value) if name in json_columns else value
            for name, value in row.items()
        }
        for row in frame.to_dict("records")
    ]
    return json.dumps(rows, indent=1) + "\n"
