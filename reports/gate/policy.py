"""Reads the policy of the gate from the table `[tool.kernel-bridge.gate]` of a `pyproject.toml`."""

import datetime
import fnmatch
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec

from reports.errors import PolicyError
from reports.records.cell import Cell
from reports.records.header import Platform
from reports.statistics.verdict_codes import FALSE_DISCOVERIES

FILE = "pyproject.toml"
TABLE = "tool.kernel-bridge.gate"

_Share = Annotated[float, msgspec.Meta(gt=0, lt=1)]
_Text = Annotated[str, msgspec.Meta(pattern=r"\S")]


class Allowed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Cells that may be slower, or undecided, for a reason and until a day.

    Attributes:
        cell: A pattern of their ids, in which `*` stands for any characters: `add-numba-*`, `*-cuda`. A cell with
            parameters also fits by its id and their values: `add-*-cold`.
        reason: Why they may.
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
    """The rules of the gate.

    Attributes:
        base: The revision that a change is compared with, such as `origin/main`.
        operators: Files and modules with operators, from the folder of the policy.
        smallest: By platform, the smallest slowdown worth a verdict, as a share; `reports.compare` has the defaults.
        large: By platform, the slowdown that must not stay undecided, as a share.
        false_discovery_rate: The share of false alarms among the cells called slower.
        minutes: The time of a comparison.
        most_unsure: The share of the compared cells that may stay undecided because of noise. With 0 every cell must be
            decided.
        allow: The cells that are excused.
    """

    base: _Text | None = None
    operators: tuple[_Text, ...] = ()
    smallest: Mapping[Platform, _Share] = {}
    large: Mapping[Platform, _Share] = {}
    false_discovery_rate: _Share = FALSE_DISCOVERIES
    minutes: Annotated[float, msgspec.Meta(gt=0)] = 10.0
    most_unsure: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.1
    allow: tuple[Allowed, ...] = ()


class _Tables(msgspec.Struct, forbid_unknown_fields=True):
    gate: Policy = Policy()


def find_policy(folder: Path) -> tuple[Policy, Path]:
    """Returns the policy for a folder, and the folder to which its paths are relative.

    Looks for a `pyproject.toml` with a table `[tool.kernel-bridge]` in the folder and then in its parents. Without
    one, the policy has its defaults, and its paths are relative to `folder`.

    Raises:
        PolicyError: The table has an unknown key or an invalid value, or a file is not TOML.
    """
    for parent in [folder, *folder.parents]:
        file = parent / FILE
        if file.is_file() and (policy := _read(file)) is not None:
            return policy, parent
    return Policy(), folder


def parse_policy(text: str, name: str = FILE) -> Policy | None:
    """Returns the policy in the text of a `pyproject.toml`; None if it has no table `[tool.kernel-bridge]`.

    Args:
        text: The text.
        name: The name of the file in messages.

    Raises:
        PolicyError: See `find_policy`.
    """
    try:
        tool = tomllib.loads(text).get("tool")
        table = tool.get("kernel-bridge") if isinstance(tool, dict) else None
        return None if table is None else msgspec.convert(table, _Tables).gate
    except tomllib.TOMLDecodeError as error:
        raise PolicyError(f"{name}: is not TOML: {error}.") from error
    except msgspec.ValidationError as error:
        keys = ", ".join(Policy.__struct_encode_fields__)
        message = str(error).replace("$.", "")
        raise PolicyError(f"{name}: [tool.kernel-bridge]: {message}. The keys of [{TABLE}] are {keys}.") from error


def _read(file: Path) -> Policy | None:
    try:
        return parse_policy(file.read_text(encoding="utf-8"), str(file))
    except (OSError, UnicodeDecodeError) as error:
        raise PolicyError(f"{file}: cannot be read: {error}.") from error
