"""Reads values from parts of a record that not every cell has."""

import json
from collections.abc import Callable

from reports.pages.fact import Read, Value
from reports.records.endured import Endurance
from reports.records.measurements import Accuracy, DispatchFacts, Resources, Stages, Timing


def of_accuracy(read: Callable[[Accuracy], Value]) -> Read:
    """Returns a reader of the accuracy of a cell. A cell without it has None."""
    return lambda row: None if row.record.accuracy is None else read(row.record.accuracy)


def of_timing(read: Callable[[Timing], Value]) -> Read:
    """Returns a reader of the times of a cell. A cell without them has None."""
    return lambda row: None if row.timing is None else read(row.timing)


def of_stages(read: Callable[[Stages], Value]) -> Read:
    """Returns a reader of the stages of a cell. A cell without them has None."""
    return lambda row: None if row.record.stages is None else read(row.record.stages)


def of_resources(read: Callable[[Resources], Value]) -> Read:
    """Returns a reader of what a call needs beside time. A cell without it has None."""
    return lambda row: None if row.record.resources is None else read(row.record.resources)


def of_dispatch(read: Callable[[DispatchFacts], Value]) -> Read:
    """Returns a reader of the facts of the dispatch benchmark. A cell of another run has None."""
    return lambda row: None if row.record.dispatch is None else read(row.record.dispatch)


def of_endurance(read: Callable[[Endurance], Value]) -> Read:
    """Returns a reader of what a trial of endurance found. A cell of another run has None."""
    return lambda row: None if row.record.endurance is None else read(row.record.endurance)


def json_text(value: object) -> str:
    """Returns a list or a mapping as JSON text, as a frame holds it."""
    return json.dumps(value, sort_keys=isinstance(value, dict))
