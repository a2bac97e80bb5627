"""Writes a line of a run file as JSON, and reads it back: a record, or the first or last line of a session.

JSON has no NaN and no infinity. msgspec would write null, which means "not measured" here. So this module writes the
strings "NaN", "Infinity" and "-Infinity", as the JSON mapping of Protocol Buffers does. Only `accuracy` and
`cell.params` may hold such numbers. The reader turns the three words into numbers there, and nowhere else.
"""

import math
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from reports.errors import DamagedLine, NewerSchema, RecordError
from reports.records.boundaries import Begin, End
from reports.records.record import SCHEMA, Record

Line = Begin | Record | End

_KINDS: dict[str, type[Line]] = {"begin": Begin, "cell": Record, "end": End}

_LARGEST = 2**63 - 1
"""The largest integer of a line. Tables and frames hold integers of 64 bits."""

_DECODER = msgspec.json.Decoder(Begin | Record | End)

_LONG = re.compile(rb"[:,\[]\s*-?[0-9]{19}")
_WORDY = (b'NaN"', b'Infinity"', b"\\ud", b"\\uD")
"""What only the careful reader understands: integers of many digits, words for numbers, halves of characters."""

_WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def encode(line: Line) -> bytes:
    """Returns a record, a begin or an end as one line of UTF-8 JSON without its newline.

    NumPy scalars become plain numbers. The line is decoded once, to check that it can be read.

    Raises:
        RecordError: A field holds a value that JSON or the types of a record do not allow.
    """
    try:
        fields = msgspec.to_builtins(line, enc_hook=plain_scalar)
        data = msgspec.json.encode(_map_floats(fields, _word))
    except (TypeError, NotImplementedError, ValueError, RecursionError) as error:
        raise RecordError(f"{_name(line)}: {error}. Pass plain numbers, strings, lists and dicts.") from error
    decode(data)
    return data


def decode(line: bytes) -> Line:
    """Returns what is on a line.

    Raises:
        DamagedLine: The line is not JSON.
        NewerSchema: The line was written by a later version.
        RecordError: The line is JSON, but no record, no begin and no end; or an older version wrote it.
    """
    if not any(word in line for word in _WORDY) and not _LONG.search(line):
        try:
            found: Line = _DECODER.decode(line)
            if found.schema == SCHEMA:
                return found
        except (msgspec.DecodeError, RecordError, UnicodeDecodeError, RecursionError):
            pass  # the careful reader says what is wrong
    try:
        fields = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DamagedLine(f"not JSON ({error}): {_shorten(line)}") from error
    schema = fields.get("schema") if isinstance(fields, dict) else None
    if type(schema) is not int:
        raise RecordError(f"expected a JSON object with an integer 'schema', received {_shorten(line)}")
    if schema > SCHEMA:
        raise NewerSchema(
            f"written with schema {_digits(schema)}, this version reads up to schema {SCHEMA}."
            " Upgrade kernel-bridge to read it."
        )
    if schema < SCHEMA:
        raise RecordError(f"written with schema {_digits(schema)}, expected {SCHEMA}. Record the run again.")
    _require_plain(fields)
    kind = fields.get("kind")
    layout = _KINDS.get(kind) if isinstance(kind, str) else None
    if layout is None:
        raise RecordError(f"expected a 'kind' of begin, cell or end, received {_shorten(line)}")
    try:
        return msgspec.convert(_map_floats(fields, _number), layout)
    except (msgspec.ValidationError, RecordError) as error:
        raise RecordError(f"not a {kind} record of schema {schema}: {error}") from error


def _name(line: Line) -> str:
    return line.cell.id if isinstance(line, Record) else type(line).__name__.lower()


def _require_plain(fields: dict[str, Any]) -> None:
    """Raises RecordError for an integer of more than 64 bits, and for text that is no Unicode."""
    for value in _leaves(fields):
        if isinstance(value, int) and not -_LARGEST <= value <= _LARGEST:
            raise RecordError(f"an integer of more than 64 bits: {_digits(value)}")
        if isinstance(value, str):
            try:
                value.encode()
            except UnicodeEncodeError as error:
                raise RecordError(f"text that is no Unicode: {value[:60]!a}") from error


def _leaves(value: Any) -> Iterator[Any]:
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            waiting += [*one.keys(), *one.values()]
        elif isinstance(one, list):
            waiting += one
        else:
            yield one


def _digits(value: int) -> str:
    return str(value) if abs(value) < 10**30 else f"about 2**{value.bit_length()}"


def plain_scalar(value: Any) -> Any:
    """Returns a scalar of NumPy or ml_dtypes as a number of Python; for msgspec."""
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
