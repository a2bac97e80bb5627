"""Converts the fields of a record that an older version wrote to the current layout."""

from typing import Any


def upgraded(fields: dict[str, Any], schema: int, to: int) -> dict[str, Any]:
    """Returns the fields of a record, as decoded from JSON, in the current layout.

    Args:
        fields: The record. It is not changed.
        schema: The version that wrote it.
        to: The current version.
    """
    if schema < 2:
        fields = _limit_per_cell(fields)
    return {**fields, "schema": to}


def _limit_per_cell(fields: dict[str, Any]) -> dict[str, Any]:
    """Gives a cell without a bandwidth limit the copy bandwidth of its run, with which schema 1 compared it."""
    run = fields.get("run")
    if not isinstance(run, dict) or "copy_bandwidth" not in run:
        return fields
    rest = {name: value for name, value in run.items() if name != "copy_bandwidth"}
    limit = {"bandwidth_limit": run["copy_bandwidth"], "bandwidth_limit_kind": "copy"}
    return {**limit, **fields, "run": rest}
