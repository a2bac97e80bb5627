"""Describes the lines of a run file as a JSON Schema, and for the documentation, from the types that read them."""

import inspect
import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from reports.records.boundaries import Begin, End
from reports.records.cell_result import CellResult
from reports.records.record import SCHEMA, Record

FILE = "line.schema.json"
"""The name of the published schema, beside this module. Write it again with `python -m reports.records.json_schema`."""

_WORDS = {"enum": ["NaN", "Infinity", "-Infinity"]}
"""JSON has no such numbers. The codec writes these words, in `Accuracy` and in the parameters of a cell."""


def line_schema() -> dict[str, Any]:
    """Returns the JSON Schema, draft 2020-12, of one line of a run file of the current version.

    It says what a line may hold. What a run may hold, such as which lines follow which, it cannot say: `load_run` does.
    """
    found = msgspec.json.schema(Begin | Record | End)
    definitions = {name: _described(name, own) for name, own in found["$defs"].items()}
    for name in ("Begin", "Record", "End"):
        definitions[name]["properties"]["schema"] = {"const": SCHEMA, "description": "Version of the layout."}
    for own in definitions["Accuracy"]["properties"].values():
        if {"type": "number"} in own.get("anyOf", []):
            own["anyOf"].append(_WORDS)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"One line of a run file of kernel-bridge, version {SCHEMA}",
        **{name: value for name, value in found.items() if name not in ("$defs", "discriminator")},
        "$defs": definitions,
    }


def schema_text() -> str:
    """Returns the schema as the text of its file."""
    return json.dumps(line_schema(), indent=1) + "\n"


def fields_documentation() -> str:
    """Returns the fields of all parts of a line as Markdown: for each part a heading and a table."""
    lines = []
    for name, part in line_schema()["$defs"].items():
        if "properties" not in part:
            continue
        lines += [f"### {name}", "", part["description"], "", "| field | type | meaning |", "| --- | --- | --- |"]
        for field, own in part["properties"].items():
            needed = "" if field in part.get("required", ()) else ", optional"
            meaning = own.get("description", "").replace("|", "\\|")
            lines.append(f"| `{field}` | {_type_text(own)}{needed} | {meaning} |")
        lines.append("")
    return "\n".join(lines)


def _described(name: str, definition: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a definition whose description is one sentence, and whose fields have their own."""
    text = inspect.cleandoc(definition.get("description", ""))
    found = {**definition, "description": text.partition("\n\n")[0].replace("\n", " ")}
    meanings = _attributes(inspect.cleandoc(CellResult.__doc__ or "")) if name == "Record" else {}
    meanings |= _attributes(text)
    if "properties" in definition:
        kind = {"kind": "Tells which line it is."}
        found["properties"] = {
            field: {**own, **({"description": said} if (said := (kind | meanings).get(field)) else {})}
            for field, own in definition["properties"].items()
        }
    return found


def _attributes(text: str) -> dict[str, str]:
    """Returns the entries of the section `Attributes` of a docstring."""
    section = re.search(r"^Attributes:\n((?:    .*\n?|\n)+)", text, re.MULTILINE)
    if section is None:
        return {}
    entries = re.findall(r"^    (\w+): ((?:.*\n?)(?:        .*\n?)*)", section[1], re.MULTILINE)
    return {field: " ".join(said.split()) for field, said in entries}


def _type_text(own: Mapping[str, Any]) -> str:
    if "anyOf" in own:
        return " or ".join(dict.fromkeys(_type_text(one) for one in own["anyOf"]))
    if "$ref" in own:
        return str(own["$ref"]).rpartition("/")[2]
    if "enum" in own:
        return ", ".join(f"`{value}`" for value in own["enum"])
    if "const" in own:
        return f"`{own['const']}`"
    if own.get("type") == "array":
        return f"list of {_type_text(own.get('items', {}))}"
    if own.get("type") == "object":
        return f"object of {_type_text(own.get('additionalProperties', {}))}"
    return str(own.get("type", "any"))


if __name__ == "__main__":
    from pathlib import Path

    Path(__file__).with_name(FILE).write_text(schema_text(), encoding="utf-8")
