"""Provides the base class of the parts of a record, and the checks that they share."""

import math
from datetime import datetime, timedelta

import msgspec

from reports.errors import RecordError


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Base class of the parts of a record. Immutable; JSON leaves out fields that have their default."""


def require_not_negative(where: object, **values: float | None) -> None:
    """Raises RecordError for a value that is negative or not finite. None means unknown."""
    for name, value in values.items():
        if value is not None and not (_is_finite(value) and value >= 0):
            raise RecordError(f"{where}: {name}={value!r}; expected a number of at least zero, or None if unknown.")


def require_rates(where: object, **rates: float | None) -> None:
    """Raises RecordError for a rate that is not finite and above zero."""
    for name, rate in rates.items():
        if rate is not None and not (_is_finite(rate) and rate > 0):
            raise RecordError(f"{where}: {name}={rate!r}; expected a rate above zero, or None if it was not measured.")


def require_utc(where: str, text: str) -> None:
    """Raises RecordError for a time that is not ISO 8601 in UTC."""
    try:
        offset = datetime.fromisoformat(text).utcoffset()
    except (TypeError, ValueError):
        offset = None
    if offset != timedelta(0):
        raise RecordError(f"{where}={text!r}; expected ISO 8601 in UTC. Pass datetime.now(UTC).isoformat().")


def _is_finite(value: float) -> bool:
    """Whether it is a number that a float can hold. Only JSON that is read is checked for types before."""
    try:
        return math.isfinite(value)
    except (OverflowError, TypeError, ValueError):
        return False
