"""Brings the fields of a record that an older version wrote to the layout of today."""

from typing import Any


def upgraded(fields: dict[str, Any], schema: int, to: int) -> dict[str, Any]:
    """Returns the fields of a record, as decoded from JSON, in the layout of today.

    Args:
        fields: The record. It is not changed.
        schema: The version that wrote it.
        to: The version of today.
    """
    if schema < 2:
        fields = _limit_per_cell(fields)
    return {**fields, "schema": to}


def _limit_per_cell(fields: dict[str, Any]) -> dict[str, Any]:
    """Schema 1 compared a cell without a bandwidth limit with one copy bandwidth of its whole run."""
    run = fields.get("run")
    if not isinstance(run, dict) or "copy_bandwidth" not in run:
        return fields
    rest = {name: value for name, value in run.items() if name != "copy_bandwidth"}
    limit = {"bandwidth_limit": run["copy_bandwidth"], "bandwidth_limit_kind": "copy"}
    return {**limit, **fields, "run": rest}
