"""Writes the outcomes of a run as JUnit XML, which services of continuous integration show as tests."""

import re
from collections.abc import Sequence
from xml.etree import ElementTree

from reports.records.record import Record, last_by_cell
from reports.records.run_file import RunFile
from reports.records.status import Status
from reports.render.visible import visible

_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Signs that XML 1.0 does not allow, also not escaped."""


def junit_document(run: RunFile, records: Sequence[Record]) -> str:
    """Returns the document: a suite for each operator, a case for each cell, with the class `OPERATOR.BACKEND`.

    A wrong cell is a failure; a cell that could not be judged, and one that is missing, is an error; a skipped cell is
    skipped. Each has its reason. The time of a case is the median time of a call, in seconds, where there is one; of
    the whole run it is the time that the session took.

    Args:
        run: The run.
        records: The records that count.
    """
    counting = last_by_cell(records)
    header = counting[-1].run
    suites: dict[str, list[Record]] = {}
    for record in counting:
        suites.setdefault(record.cell.operator, []).append(record)
    root = ElementTree.Element("testsuites", {"name": _text(f"kernel-bridge {header.profile}")})
    total = dict.fromkeys(("tests", "failures", "errors", "skipped"), 0)
    for operator, own in suites.items():
        suite = ElementTree.SubElement(root, "testsuite", {"name": _text(operator), "timestamp": _time(header.started)})
        facts = {"run": header.run_id, "device": header.device.kind, "commit": header.source.commit or "unknown"}
        properties = ElementTree.SubElement(suite, "properties")
        for name, value in (facts | header.versions).items():
            ElementTree.SubElement(properties, "property", {"name": _text(name), "value": _text(value)})
        counts = dict.fromkeys(total, 0)
        for record in own:
            counts["tests"] += 1
            kind = _case(suite, record)
            if kind:
                counts[kind] += 1
        seconds = sum(record.timing.median_ns for record in own if record.timing) * 1e-9
        suite.attrib |= {name: str(count) for name, count in counts.items()} | {"time": f"{seconds:.9f}"}
        total = {name: total[name] + counts[name] for name in total}
    wanted = {record.cell.operator for record in counting}
    lost = [cell for cell in run.missing if cell.operator in wanted]
    if lost:
        suite = ElementTree.SubElement(root, "testsuite", {"name": "missing", "timestamp": _time(header.started)})
        for cell in lost:
            case = _named(suite, f"{cell.operator}.{cell.backend}", _cell_name(cell.mode, cell.id, cell.params), 0.0)
            ElementTree.SubElement(case, "error", {"type": "MISSING", "message": "the session recorded no result"})
        counts = {"tests": len(lost), "failures": 0, "errors": len(lost), "skipped": 0}
        suite.attrib |= {name: str(count) for name, count in counts.items()} | {"time": "0"}
        total = {name: total[name] + counts[name] for name in total}
    root.attrib |= {name: str(count) for name, count in total.items()}
    root.set("time", f"{run.end.seconds if run.end else 0:.3f}")
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _case(suite: ElementTree.Element, record: Record) -> str | None:
    """Adds the case of a cell; returns what it counts as, None if it passed."""
    cell = record.cell
    seconds = record.timing.median_ns * 1e-9 if record.timing else 0.0
    name = _cell_name(cell.mode, cell.id, cell.params)
    case = _named(suite, f"{cell.operator}.{cell.backend}", name, seconds)
    if record.status is Status.PASSED:
        return None
    reason = _text(record.reason or "")
    tag, kind = ("skipped", "skipped")
    if record.status.failed:
        tag, kind = ("failure", "failures") if record.status.wrong else ("error", "errors")
    line = " ".join(reason.split())
    found = ElementTree.SubElement(case, tag, {"type": str(record.status), "message": f"{record.status}: {line}"})
    if tag != "skipped":
        found.text = reason
    return kind


def _named(suite: ElementTree.Element, group: str, name: str, seconds: float) -> ElementTree.Element:
    attributes = {"classname": _text(group), "name": _text(name), "time": f"{seconds:.9f}"}
    return ElementTree.SubElement(suite, "testcase", attributes)


def _cell_name(mode: str, cell_id: str, params: dict[str, str | int | float | bool | None]) -> str:
    variant = "".join(f", {name}={value}" for name, value in sorted(params.items()))
    return f"{mode}[{cell_id}{variant}]"


def _time(text: str) -> str:
    """Returns a time as JUnit has it: without a zone and without fractions of a second."""
    return text[:19]


def _text(text: object) -> str:
    return _FORBIDDEN.sub("\ufffd", "\n".join(map(visible, str(text).split("\n"))))
