"""What was measured in, one immutable self-contained `Record` per cell out."""

import json
from collections.abc import Iterable
from enum import StrEnum

import msgspec

from reports.errors import RecordError
from reports.records.header import Device, Host, Platform, Run, Source
from reports.records.measurements import Accuracy, Stages, Timing
from reports.records.part import Part, require_not_negative, require_rates, require_utc

__all__ = [
    "SCHEMA",
    "Accuracy",
    "Cell",
    "CellKey",
    "Device",
    "Host",
    "Parameter",
    "Platform",
    "Record",
    "Run",
    "Source",
    "Stages",
    "Status",
    "Timing",
    "last_by_cell",
    "short_dtype",
]

SCHEMA = 1
"""Version of the record's layout. A reader accepts this one and those before it."""

_DTYPE_STEMS = {"float": "f", "bfloat": "bf", "int": "i", "uint": "u", "complex": "c"}

Parameter = str | int | float | bool | None
CellKey = tuple[str | int, ...]


class Status(StrEnum):
    """How a cell ended."""

    PASSED = "PASSED"
    WRONG_VALUE = "WRONG_VALUE"
    WRONG_SHAPE = "WRONG_SHAPE"
    WRONG_DTYPE = "WRONG_DTYPE"
    INPUT_MUTATED = "INPUT_MUTATED"
    UNWRITTEN_OUTPUT = "UNWRITTEN_OUTPUT"
    NONDETERMINISTIC = "NONDETERMINISTIC"
    COMPILE_ERROR = "COMPILE_ERROR"
    RUNTIME_ERROR = "RUNTIME_ERROR"
    CRASHED = "CRASHED"
    TIMEOUT = "TIMEOUT"
    OOM = "OOM"
    SKIPPED = "SKIPPED"

    @property
    def failed(self) -> bool:
        """True for what ought to have passed: unsupported (`SKIPPED`) is not broken."""
        return self not in (Status.PASSED, Status.SKIPPED)


class Cell(Part, frozen=True, kw_only=True):
    """One square of the matrix operator x backend x mode x platform x dtype x size x parameters.

    Attributes:
        operator: Name of the operator.
        operator_version: Raised whenever its meaning changes.
        backend: Name of the backend; `jnp` is XLA's own.
        mode: The transformation or direction: `forward`, `vjp`, `vmap`.
        platform: `cpu` or `cuda`.
        dtype: Full name, such as `float32`.
        size: The operator's nominal number of elements.
        params: Whatever else selects the cell. Two records of one cell in a run are two attempts at it, so
            what is to be measured side by side (say, cold and hot caches) has its place here.
    """

    operator: str
    operator_version: int
    backend: str
    mode: str = "forward"
    platform: Platform
    dtype: str
    size: int
    params: dict[str, Parameter] = msgspec.field(default_factory=dict)

    @property
    def id(self) -> str:
        """Reads aloud, such as `lif_step-numba-f32-4096-cpu`; parameters are left out."""
        parts = [self.operator, self.backend, short_dtype(self.dtype), str(self.size), self.platform]
        if self.mode != "forward":
            parts.append(self.mode)
        return "-".join(parts)

    @property
    def key(self) -> CellKey:
        """Hashable identity: equal for equal cells, whatever the order of `params`."""
        return (
            self.operator,
            self.operator_version,
            self.backend,
            self.mode,
            self.platform,
            short_dtype(self.dtype),
            self.size,
            self.params_text,
        )

    @property
    def params_text(self) -> str:
        """`params` as JSON text with sorted names (JSON keeps 1, 1.0 and true apart, a dict does not)."""
        return json.dumps(self.params, sort_keys=True)


class Record(Part, frozen=True, kw_only=True):
    """The evidence for one cell.

    Attributes:
        schema: Layout version, `SCHEMA` when written.
        index: Order within the run, from 0.
        time: When the cell ended, ISO 8601 in UTC.
        run: The run's header.
        cell: Which cell.
        shapes: Shapes of the inputs.
        dtypes: Dtypes of the inputs.
        seed: Seed of the inputs.
        status: How it ended.
        reason: Why it did not pass.
        accuracy: How right.
        timing: How fast, for a cell that passed.
        stages: Time before the steady state.
        peak_memory_bytes: Device memory in use at most.
        bytes: Bytes that one call has to read and write, as the operator declares.
        flops: Floating-point operations of one call, as the operator declares.
        bandwidth_limit: Bytes per second that this device was measured to reach with the cell's working set and mix
            of reads and writes; None to compare the cell with the run's `copy_bandwidth`.
        bandwidth_limit_kind: What was measured, such as `copy, memory` or `read, L2 cache`; given with the limit.
    """

    schema: int
    index: int
    time: str
    run: Run
    cell: Cell
    shapes: list[list[int]]
    dtypes: list[str]
    seed: int
    status: Status
    reason: str | None = None
    accuracy: Accuracy | None = None
    timing: Timing | None = None
    stages: Stages | None = None
    peak_memory_bytes: int | None = None
    bytes: int | None = None
    flops: int | None = None
    bandwidth_limit: float | None = None
    bandwidth_limit_kind: str | None = None

    def __post_init__(self) -> None:
        cell_id = self.cell.id
        if self.timing is not None and self.status is not Status.PASSED:
            raise RecordError(
                f"{cell_id}: status {self.status} with a timing. A time exists only for a cell that passed:"
                " pass timing=None."
            )
        if self.status is not Status.PASSED and not (self.reason and self.reason.strip()):
            raise RecordError(f"{cell_id}: status {self.status} without a reason. Pass reason='...' saying why.")
        if self.cell.platform != self.run.device.platform:
            raise RecordError(
                f"{cell_id}: the cell ran on {self.cell.platform!r}, its run header describes a"
                f" {self.run.device.platform!r} device. Give each device its own Run: a share of another"
                " device's bandwidth means nothing."
            )
        require_utc(f"{cell_id}: time", self.time)
        require_not_negative(
            cell_id,
            index=self.index,
            bytes=self.bytes,
            flops=self.flops,
            peak_memory_bytes=self.peak_memory_bytes,
        )
        require_rates(cell_id, bandwidth_limit=self.bandwidth_limit)
        if (self.bandwidth_limit is None) != (not self.bandwidth_limit_kind):
            raise RecordError(
                f"{cell_id}: bandwidth_limit={self.bandwidth_limit!r} with"
                f" bandwidth_limit_kind={self.bandwidth_limit_kind!r}. Pass both, as (9e9, 'copy, memory'), or neither."
            )

    @property
    def bandwidth(self) -> float | None:
        """Bytes per second at the median time; None without a time or declared bytes."""
        return None if self.timing is None or self.bytes is None else self.bytes / (self.timing.median_ns * 1e-9)

    @property
    def roof(self) -> float | None:
        """The measured bandwidth that this cell is compared with: its own limit, else the run's copy bandwidth."""
        return self.run.copy_bandwidth if self.bandwidth_limit is None else self.bandwidth_limit

    @property
    def bandwidth_share(self) -> float | None:
        """`bandwidth` over `roof`, both measured in the same run.

        Above 1.0 the data stayed in a nearer cache or the harness is wrong; it is neither clipped nor hidden.
        """
        return _share(self.bandwidth, self.roof)

    @property
    def flop_rate(self) -> float | None:
        """Floating-point operations per second at the median time."""
        return None if self.timing is None or self.flops is None else self.flops / (self.timing.median_ns * 1e-9)

    @property
    def flops_share(self) -> float | None:
        """`flop_rate` over the peak measured in the same run; as with `bandwidth_share`, never clipped."""
        return _share(self.flop_rate, self.run.peak_flops)


def short_dtype(dtype: str) -> str:
    """Returns `f32` for `float32`, `bf16` for `bfloat16`, and a name without a short form as it is."""
    stem = dtype.rstrip("0123456789")
    return _DTYPE_STEMS[stem] + dtype[len(stem) :] if stem in _DTYPE_STEMS and stem != dtype else dtype


def last_by_cell(records: Iterable[Record]) -> list[Record]:
    """Returns one record per run and cell, the last one: a resumed run may try a cell again."""
    latest: dict[tuple[str, CellKey], Record] = {}
    for record in records:
        latest[record.run.run_id, record.cell.key] = record
    return list(latest.values())


def _share(rate: float | None, limit: float | None) -> float | None:
    return None if rate is None or limit is None else rate / limit
