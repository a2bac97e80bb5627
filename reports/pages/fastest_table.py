"""Makes the table of the fastest kernels, by operator and dtype, and by device."""

from collections.abc import Mapping, Sequence

from reports.pages.groups import dtype_order, group_names
from reports.pages.rows import BASELINE, CellRow
from reports.records.cell import short_dtype
from reports.render.layout import Column, Table, Text
from reports.render.units import ABSENT, TIMES, count_text, ratio_text
from reports.statistics.intervals import Ratio, beats_from
from reports.statistics.verdict_codes import TIE

Kernels = dict[str, dict[int, Ratio]]
"""The ratio to the baseline by backend and size."""


def fastest_table(devices: Mapping[str, Sequence[CellRow]]) -> Table:
    """Returns a row for each operator and dtype, with the kernels that beat the baseline on each device.

    Args:
        devices: The cells of each device.
    """
    every = [row for rows in devices.values() for row in rows]
    names = dict(zip(every, group_names([row.cell for row in every], without=("cache",)), strict=True))
    found: dict[tuple[str, str], dict[str, Kernels]] = {}
    for device, rows in devices.items():
        for row in rows:
            if row.compared and row.cell.backend != BASELINE and row.library is None:
                kernels = found.setdefault((names[row], row.cell.dtype), {}).setdefault(device, {})
                kernels.setdefault(row.cell.backend, {})[row.cell.size] = row.compared
    order = sorted(found, key=lambda key: (key[0], dtype_order(key[1])))
    lines = [
        tuple(map(Text, (key[0], short_dtype(key[1]), *(_winners(found[key].get(name), name) for name in devices))))
        for key in order
    ]
    columns = (Column("operator", "left"), Column("dtype", "left"), *(Column(device, "left") for device in devices))
    note = (
        f"{TIMES}{BASELINE} at the largest size, and the size from which on a kernel beats {BASELINE} at all sizes that"
        f" were timed, the fastest first; {ABSENT}: none surely does; ?: fewer than three processes timed it"
    )
    return Table("Kernels that beat jnp", columns, tuple(lines), (note,), role="summary")


def _winners(kernels: Kernels | None, device: str) -> str:
    if not kernels:
        return ""
    smallest = TIE[device.partition(":")[0]]
    largest = max(size for ratios in kernels.values() for size in ratios)
    texts = []
    for backend in sorted(kernels, key=lambda name: kernels[name][largest].value if largest in kernels[name] else 0):
        least, last = beats_from(kernels[backend], smallest), kernels[backend].get(largest)
        if last and (least is not None or (last.low is None and last.value < 1)):
            proof = "?" if least is None else f" from {count_text(least)}"
            texts.append(f"{backend} {ratio_text(last.value)}{proof}")
    return ", ".join(texts) or ABSENT
