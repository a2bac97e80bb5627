"""Cells in, the names under which a table gathers them out: the operator and its variants."""

import json
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from reports.records.record import short_dtype


@dataclass(frozen=True, slots=True)
class Variant:
    """What decides the group of a cell; `params` as JSON text."""

    operator: str
    version: int
    mode: str
    params: str
    size: int


def group_names(variants: Sequence[Variant]) -> list[str]:
    """Returns one name per variant, such as `csr_matvec  vjp  density=0.01`.

    A version is named only where an operator has several, a mode only where it is not `forward`. A
    parameter that the size decides (a row count, say) is left out, or each size would be a group of its own.
    """
    versions: dict[str, set[int]] = defaultdict(set)
    values: dict[tuple[str, str], dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    for variant in variants:
        versions[variant.operator].add(variant.version)
        for name, value in json.loads(variant.params).items():
            values[variant.operator, name][variant.size].add(json.dumps(value))
    return [_name(variant, versions, values) for variant in variants]


def dtype_order(dtype: str) -> tuple[str, int]:
    """Sorts f16 before f32 before f64, and kinds by name."""
    short = short_dtype(dtype)
    bits = re.search(r"\d+", short)
    return short.rstrip("0123456789"), int(bits.group()) if bits else 0


def backend_order(backend: str, baseline: str) -> tuple[bool, str]:
    """Sorts the baseline first, the others by name."""
    return backend != baseline, backend


def _name(variant: Variant, versions: dict[str, set[int]], values: dict[tuple[str, str], dict[int, set[str]]]) -> str:
    parts = [variant.operator]
    if len(versions[variant.operator]) > 1:
        parts.append(f"(version {variant.version})")
    if variant.mode != "forward":
        parts.append(variant.mode)
    for name, value in sorted(json.loads(variant.params).items()):
        by_size = values[variant.operator, name]
        distinct = set().union(*by_size.values())
        if len(distinct) == 1 or any(len(found) > 1 for found in by_size.values()):
            parts.append(f"{name}={value if isinstance(value, str) else json.dumps(value)}")
    return "  ".join(parts)
