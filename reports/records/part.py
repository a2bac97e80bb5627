"""Provides the base class of the parts of a record, and the checks that they share."""

import math
from datetime import datetime, timedelta
from typing import Annotated, Any

import msgspec

from reports.errors import RecordError

Whole = Annotated[int, msgspec.Meta(ge=1 - 2**63, le=2**63 - 1)]
"""A whole number that tables and frames can hold: they have 64 bits."""

Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Amount = Annotated[float, msgspec.Meta(ge=0)]
Rate = Annotated[float, msgspec.Meta(gt=0)]
"""Numbers that are not negative, or above zero. msgspec checks them where a line is written or read."""

_WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Base class of the parts of a record. Immutable; JSON leaves out fields that have their default."""


def number(value: Any) -> Any:
    """Returns the number of a word such as `NaN`; any other value unchanged."""
    return _WORDS.get(value, value) if isinstance(value, str) else value


def require_utc(where: str, text: str) -> None:
    """Raises RecordError for a time that is not ISO 8601 in UTC."""
    try:
        offset = datetime.fromisoformat(text).utcoffset()
    except (TypeError, ValueError):
        offset = None
    if offset != timedelta(0):
        raise RecordError(f"{where}={text!r}; expected ISO 8601 in UTC. Pass datetime.now(UTC).isoformat().")
