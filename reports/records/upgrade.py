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
    if schema < 4:
        fields = _one_process(fields)
    return {**fields, "schema": to}


def _one_process(fields: dict[str, Any]) -> dict[str, Any]:
    """Puts the samples of a timing into its only process; before schema 4, each cell was timed in one process."""
    timing = fields.get("timing")
    if not isinstance(timing, dict) or "processes" in timing:
        return fields
    process = {name: timing[name] for name in ("samples_ns", "loops") if name in timing}
    rest = {name: value for name, value in timing.items() if name not in process}
    return {**fields, "timing": {**rest, "processes": [process]}}


def _limit_per_cell(fields: dict[str, Any]) -> dict[str, Any]:
    """Gives a cell without a bandwidth limit the copy bandwidth of its run, with which schema 1 compared it."""
    run = fields.get("run")
    if not isinstance(run, dict) or "copy_bandwidth" not in run:
        return fields
    rest = {name: value for name, value in run.items() if name != "copy_bandwidth"}
    limit = {"bandwidth_limit": run["copy_bandwidth"], "bandwidth_limit_kind": "copy"}
    return {**limit, **fields, "run": rest}
