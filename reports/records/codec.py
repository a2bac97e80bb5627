"""Writes a record as one line of JSON, and reads it back.

JSON has no NaN and no infinity. msgspec would write null, which means "not measured" here. So this module writes the
strings "NaN", "Infinity" and "-Infinity", as the JSON mapping of Protocol Buffers does. Only `accuracy` and
`cell.params` may hold such numbers. The reader turns the three words into numbers there, and nowhere else.
"""

import math
from typing import Any

import msgspec

from reports.errors import DamagedLine, NewerSchema, RecordError
from reports.records.record import SCHEMA, Record
from reports.records.upgrade import upgraded

_WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def encode(record: Record) -> bytes:
    """Returns the record as one line of UTF-8 JSON without its newline.

    NumPy scalars become plain numbers. The line is decoded once, to check that it can be read.

    Raises:
        RecordError: A field holds a value that JSON or the types of a record do not allow.
    """
    try:
        fields = msgspec.to_builtins(record, enc_hook=_plain_scalar)
    except (TypeError, NotImplementedError) as error:
        raise RecordError(f"{record.cell.id}: {error}. Pass plain numbers, strings, lists and dicts.") from error
    line = msgspec.json.encode(_map_floats(fields, _word))
    decode(line)
    return line


def decode(line: bytes) -> Record:
    """Returns the record on a line. A record of an older version gets the current layout.

    Raises:
        DamagedLine: The line is not JSON.
        NewerSchema: The record was written by a later version.
        RecordError: The line is JSON, but not a record.
    """
    try:
        fields = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DamagedLine(f"not JSON ({error}): {_shorten(line)}") from error
    schema = fields.get("schema") if isinstance(fields, dict) else None
    if not isinstance(schema, int):
        raise RecordError(f"expected a JSON object with an integer 'schema', received {_shorten(line)}")
    if schema > SCHEMA:
        raise NewerSchema(
            f"written with schema {schema}, this version reads up to schema {SCHEMA}. Upgrade kernel-bridge to read it."
        )
    try:
        return msgspec.convert(_map_floats(upgraded(fields, schema, to=SCHEMA), _number), Record)
    except msgspec.ValidationError as error:
        raise RecordError(f"not a record of schema {schema}: {error}") from error


def _plain_scalar(value: Any) -> Any:
    # The scalars of NumPy and ml_dtypes have this method, so neither library is imported here.
    item = getattr(value, "item", None)
    if item is None or getattr(value, "shape", None) != ():
        raise NotImplementedError(f"a value of type {type(value).__name__} cannot be recorded")
    return item()


def _word(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _number(value: Any) -> Any:
    return _WORDS.get(value, value) if isinstance(value, str) else value


def _map_floats(fields: dict[str, Any], change: Any) -> dict[str, Any]:
    """Returns `fields` with `change` applied to each value of `accuracy` and `cell.params`."""
    changed = dict(fields)
    accuracy = changed.get("accuracy")
    if isinstance(accuracy, dict):
        changed["accuracy"] = {name: change(value) for name, value in accuracy.items()}
    cell = changed.get("cell")
    if isinstance(cell, dict) and isinstance(cell.get("params"), dict):
        params = {name: change(value) for name, value in cell["params"].items()}
        changed["cell"] = {**cell, "params": params}
    return changed


def _shorten(line: bytes, limit: int = 60) -> str:
    text = line.decode("utf-8", errors="replace")
    return repr(text if len(text) <= limit else text[:limit] + "...")
