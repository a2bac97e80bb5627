"""Reads the policy of the gate from the table `[tool.kernel-bridge.gate]` of a `pyproject.toml`."""

import datetime
import difflib
import fnmatch
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec

from reports.errors import PolicyError
from reports.records.cell import Cell
from reports.records.header import Platform
from reports.statistics.verdict_codes import FALSE_DISCOVERIES

FILE = "pyproject.toml"
TABLE = "tool.kernel-bridge.gate"
BASELINE = "baseline"
"""The name of a base that stands for the recorded run of this machine, and not for a revision."""

_Share = Annotated[float, msgspec.Meta(gt=0, lt=1)]
_Text = Annotated[str, msgspec.Meta(pattern=r"\S")]


class Allowed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Cells that may be slower, or undecided, for a reason and until a day.

    Attributes:
        cell: A pattern of their ids, in which `*` stands for any characters: `add-numba-*`, `*-cuda`. A cell with
            parameters also fits by its id and their values: `add-*-cold`.
        reason: Why.
        until: The last day on which they are excused, in UTC.
    """

    cell: _Text
    reason: _Text
    until: datetime.date

    def fits(self, cell: Cell) -> bool:
        """Tells whether the pattern fits a cell."""
        full = "-".join([cell.id, *(str(value) for _, value in sorted(cell.params.items()))])
        return any(fnmatch.fnmatchcase(text, self.cell) for text in (cell.id, full))


class Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """What the gate lets pass.

    Attributes:
        base: What a change is compared with: a revision such as `origin/main`, or `baseline`.
        operators: Files and modules with operators, from the folder of the policy.
        smallest: By platform, the smallest slowdown worth a verdict, as a share; `reports.compare` has the defaults.
        large: By platform, the slowdown that must not stay undecided, likewise.
        false_discovery_rate: The share of false alarms among the cells called slower.
        minutes: The time of a comparison.
        most_unsure: The share of the compared cells that may stay undecided because of noise. With 0 every cell must be
            decided.
        baselines: The folder of the baselines, from the folder of the policy.
        max_age_days: The age from which on a baseline does not count.
        allow: The cells that are excused.
    """

    base: _Text | None = None
    operators: tuple[_Text, ...] = ()
    smallest: Mapping[Platform, _Share] = {}
    large: Mapping[Platform, _Share] = {}
    false_discovery_rate: _Share = FALSE_DISCOVERIES
    minutes: Annotated[float, msgspec.Meta(gt=0)] = 10.0
    most_unsure: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.1
    baselines: _Text = "baselines"
    max_age_days: Annotated[float, msgspec.Meta(gt=0)] = 30.0
    allow: tuple[Allowed, ...] = ()


def find_policy(folder: Path) -> tuple[Policy, Path]:
    """Returns the policy for a folder, and the folder that its paths begin at.

    Looks for a `pyproject.toml` with a table `[tool.kernel-bridge]` in the folder and then in its parents. Without
    one, the policy has its defaults, and its paths begin at `folder`.

    Raises:
        PolicyError: The table has an unknown key or a value that makes no sense, or a file is not TOML.
    """
    for place in [folder, *folder.parents]:
        file = place / FILE
        if file.is_file() and (found := _read(file)) is not None:
            return found, place
    return Policy(), folder


def parse_policy(text: str, name: str = FILE) -> Policy | None:
    """Returns the policy that the text of a `pyproject.toml` holds; None if it has no table `[tool.kernel-bridge]`.

    Args:
        text: The text.
        name: The name of the file in messages.

    Raises:
        PolicyError: As for `find_policy`.
    """
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PolicyError(f"{name}: is not TOML: {error}.") from error
    tool = content.get("tool")
    table = tool.get("kernel-bridge") if isinstance(tool, dict) else None
    if table is None:
        return None
    _require_known(name, "tool.kernel-bridge", table, ["gate"])
    return _converted(name, table.get("gate", {}))


def _read(file: Path) -> Policy | None:
    try:
        return parse_policy(file.read_text(encoding="utf-8"), str(file))
    except (OSError, UnicodeDecodeError) as error:
        raise PolicyError(f"{file}: cannot be read: {error}.") from error


def _converted(name: str, table: Any) -> Policy:
    _require_known(name, TABLE, table, Policy.__struct_encode_fields__)
    entries = table.get("allow", [])
    for number, entry in enumerate(entries if isinstance(entries, list) else ()):
        _require_known(name, f"{TABLE}.allow[{number}]", entry, Allowed.__struct_encode_fields__)
        lacking = [key for key in Allowed.__struct_encode_fields__ if key not in entry]
        if lacking:
            raise PolicyError(
                f"{name}: [{TABLE}] allow[{number}] has no {' and no '.join(lacking)}. Write, for example,"
                ' {cell = "add-numba-*", reason = "rewritten for accuracy", until = 2026-12-31}.'
            )
    try:
        return msgspec.convert(table, Policy)
    except msgspec.ValidationError as error:
        said, _, at = str(error).partition(" - at ")
        place = at.rpartition("$")[2].strip("`.")  # msgspec writes: at `$.minutes`, or: at `key` in `$.smallest`
        raise PolicyError(
            f"{name}: [{TABLE}] {place or 'the table'}: {said.replace('`', '')}, received {_value(table, place)!r}."
            f"{_hint(place)}"
        ) from error


def _require_known(name: str, table: str, given: Any, known: Iterable[str]) -> None:
    """Raises PolicyError if `given` is no table, or has a key that is not known."""
    if not isinstance(given, dict):
        raise PolicyError(f"{name}: [{table}] is {given!r}, expected a table.")
    names = list(known)
    for key in given:
        if key not in names:
            near = difflib.get_close_matches(key.replace("_", "-"), names, 1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise PolicyError(f"{name}: [{table}] has the unknown key {key!r}.{hint} Known: {', '.join(names)}.")


def _value(table: Any, place: str) -> Any:
    """Returns the value at a place such as `allow[0].until`; the table itself where the place leads nowhere."""
    value = table
    for key, number in re.findall(r"([\w-]+)|\[(\d+)\]", place):
        try:
            value = value[key] if key else value[int(number)]
        except (KeyError, IndexError, TypeError):
            return value
    return value


def _hint(place: str) -> str:
    if place.endswith("until"):
        return " Write a day, such as until = 2026-12-31."
    if place.startswith(("smallest", "large")):
        return " Write shares, such as {cpu = 0.05, cuda = 0.015}."
    return ""
