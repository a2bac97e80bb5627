"""Writes a line of a run file as JSON, and reads it back: a record, or the first or last line of a session.

JSON has no NaN and no infinity. msgspec would write null, which means "not measured" here. So this module writes the
strings "NaN", "Infinity" and "-Infinity", as the JSON mapping of Protocol Buffers does. Only `accuracy` and
`cell.params` may hold such numbers. The reader converts the three words to numbers there, and refuses them elsewhere.
"""

import math
from typing import Any

import msgspec

from reports.errors import DamagedLine, NewerSchema, RecordError
from reports.records.boundaries import Begin, End
from reports.records.part import number
from reports.records.record import SCHEMA, Record

Line = Begin | Record | End

_KINDS: dict[str, type[Line]] = {"begin": Begin, "cell": Record, "end": End}

_DECODER = msgspec.json.Decoder(Begin | Record | End)


def encode(line: Line) -> bytes:
    """Returns a record, a begin or an end as one line of UTF-8 JSON without its newline.

    NumPy scalars become plain numbers. The line is decoded once, to check that it can be read.

    Raises:
        RecordError: A field holds a value that JSON or the types of a record do not allow.
    """
    try:
        fields = msgspec.to_builtins(line, enc_hook=plain_scalar)
        data = msgspec.json.encode(_word(fields))
    except (TypeError, NotImplementedError, ValueError, RecursionError) as error:
        raise RecordError(f"{_name(line)}: {error}. Pass plain numbers, strings, lists and dicts.") from error
    decode(data)
    return data


def decode(line: bytes) -> Line:
    """Returns the content of a line.

    Raises:
        DamagedLine: The line is not JSON.
        NewerSchema: The line was written by a later version.
        RecordError: The line is JSON, but no record, no begin and no end; or an older version wrote it.
    """
    try:
        content: Line = _DECODER.decode(line)
        if content.schema == SCHEMA:
            return content
    except (msgspec.DecodeError, RecordError, UnicodeDecodeError, RecursionError):
        pass  # the slow path below also reads words for numbers, and raises errors with a reason
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
    kind = fields.get("kind")
    layout = _KINDS.get(kind) if isinstance(kind, str) else None
    if layout is None:
        raise RecordError(f"expected a 'kind' of begin, cell or end, received {_shorten(line)}")
    try:
        return msgspec.convert(_with_numbers(fields), layout)
    except (msgspec.ValidationError, RecordError) as error:
        raise RecordError(f"not a {kind} record of schema {schema}: {error}") from error


def _name(line: Line) -> str:
    return line.cell.id if isinstance(line, Record) else type(line).__name__.lower()


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
    """Returns a value in which the numbers that JSON does not have are words."""
    if isinstance(value, dict):
        return {name: _word(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_word(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _with_numbers(fields: dict[str, Any]) -> dict[str, Any]:
    """Returns the fields of a line in which the words in `accuracy` are numbers."""
    accuracy = fields.get("accuracy")
    if not isinstance(accuracy, dict):
        return fields
    return {**fields, "accuracy": {name: number(value) for name, value in accuracy.items()}}


def _shorten(line: bytes, limit: int = 60) -> str:
    text = line.decode("utf-8", errors="replace")
    return repr(text if len(text) <= limit else text[:limit] + "...")
