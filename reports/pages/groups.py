"""Names the groups of rows in a table, by operator and variant."""

import json
import re
from collections import defaultdict
from collections.abc import Collection, Sequence

from reports.records.cell import Cell, short_dtype


def group_names(cells: Sequence[Cell], without: Collection[str] = ()) -> list[str]:
    """Returns the name of each cell's group, such as `csr_matvec  vjp  density=0.01`.

    A name has the version only if an operator has several, and the mode only if it is not `forward`. A parameter that
    follows from the size, such as a number of rows, is left out: otherwise each size would be its own group.

    Args:
        cells: The cells.
        without: Parameters that have their own column.
    """
    versions: dict[str, set[int]] = defaultdict(set)
    values: dict[tuple[str, str], dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    for cell in cells:
        versions[cell.operator].add(cell.operator_version)
        for name, value in cell.params.items():
            values[cell.operator, name][cell.size].add(json.dumps(value))
    return [_name(cell, versions, values, without) for cell in cells]


def dtype_order(dtype: str) -> tuple[str, int]:
    """Returns a sort key that puts f16 before f32 before f64, and sorts the kinds by name."""
    short = short_dtype(dtype)
    bits = re.search(r"\d+", short)
    return short.rstrip("0123456789"), int(bits.group()) if bits else 0


def _name(
    cell: Cell,
    versions: dict[str, set[int]],
    values: dict[tuple[str, str], dict[int, set[str]]],
    without: Collection[str],
) -> str:
    parts = [cell.operator]
    if len(versions[cell.operator]) > 1:
        parts.append(f"(version {cell.operator_version})")
    if cell.mode != "forward":
        parts.append(cell.mode)
    for name, value in sorted(cell.params.items()):
        if name in without:
            continue
        by_size = values[cell.operator, name]
        distinct = set().union(*by_size.values())
        if len(distinct) == 1 or any(len(values_of_size) > 1 for values_of_size in by_size.values()):
            parts.append(f"{name}={value if isinstance(value, str) else json.dumps(value)}")
    return "  ".join(parts)
