"""Holds the measured result of one cell, before it becomes part of a run."""

from typing import Any

from reports.errors import RecordError
from reports.records.cell import Cell
from reports.records.measurements import Accuracy, Resources, Stages, Timing
from reports.records.part import Count, Part, Rate, Whole
from reports.records.status import Status


class CellResult(Part, frozen=True, kw_only=True):
    """The result of one cell. `RunWriter.append` takes it and makes a `Record` of it.

    Attributes:
        cell: The cell.
        shapes: Shapes of the inputs.
        dtypes: Dtypes of the inputs.
        seed: Seed of the inputs.
        status: How the cell ended.
        reason: Why it did not pass.
        accuracy: The largest errors of the results.
        timing: How fast the cell is; only for a cell that passed.
        stages: Time before the steady state.
        resources: Memory of a call.
        dispatch: The facts of a cell of the dispatch benchmark, which only older versions recorded.
        hlo: Lines of the program that XLA compiled, which only older versions recorded.
        bytes: Bytes that one call must read and write, as the operator declares.
        flops: Floating-point operations of one call, as the operator declares.
        bandwidth_limit: Bytes per second that this device reached with the working set of the cell and its mix of
            reads and writes, measured in the same run.
        bandwidth_limit_kind: The measurement of the limit, such as `copy, memory` or `read, L2 cache`. A limit needs
            it.
        roof_ns: The least time of a call: the longer of the times for its bytes and its operations, at the rates that
            this device reached in the same run.
        roof_kind: The resource that sets the roof, such as `copy, memory`. A roof needs it.
        remarks: The remarks of the operator's author, for readers of a table.
        arithmetic: The numbers that the reference computes in, such as `products of TF32, sums of float32`.
        code_lines: Lines of code of the kernel, with the functions of its file that it uses.
        launch: The numbers that the kernel was launched with, such as the sizes of its blocks, by name.

    Raises:
        RecordError: The fields contradict each other.
    """

    cell: Cell
    shapes: list[list[Whole]]
    dtypes: list[str]
    seed: Whole
    status: Status
    reason: str | None = None
    accuracy: Accuracy | None = None
    timing: Timing | None = None
    stages: Stages | None = None
    resources: Resources | None = None
    dispatch: dict[str, Any] | None = None
    hlo: list[str] | None = None
    bytes: Count | None = None
    flops: Count | None = None
    bandwidth_limit: Rate | None = None
    bandwidth_limit_kind: str | None = None
    roof_ns: Rate | None = None
    roof_kind: str | None = None
    remarks: str | None = None
    arithmetic: str | None = None
    code_lines: Count | None = None
    launch: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.cell, Cell):
            raise RecordError(f"a result has the cell {self.cell!r}; expected a Cell.")
        if self.timing is not None and self.status is not Status.PASSED:
            raise RecordError(
                f"{self.cell}: status {self.status} with a timing. A time exists only for a cell that passed:"
                " pass timing=None."
            )
        if self.status is not Status.PASSED and not (self.reason and self.reason.strip()):
            raise RecordError(f"{self.cell}: status {self.status} without a reason. Pass reason='...' saying why.")
        for limit, kind in (("roof_ns", "roof_kind"), ("bandwidth_limit", "bandwidth_limit_kind")):
            if (getattr(self, limit) is None) != (not getattr(self, kind)):
                raise RecordError(
                    f"{self.cell}: {limit}={getattr(self, limit)!r} with {kind}={getattr(self, kind)!r}."
                    " Pass both, such as 9e9 and 'copy, memory', or neither."
                )

    @property
    def bandwidth(self) -> float | None:
        """Bytes per second at the median time; None without a time or declared bytes."""
        return None if self.timing is None or self.bytes is None else self.bytes / (self.timing.median_ns * 1e-9)

    @property
    def roof_share(self) -> float | None:
        """`roof_ns` divided by the median time. At 1, the device cannot run the call faster."""
        return None if self.timing is None or self.roof_ns is None else self.roof_ns / self.timing.median_ns

    @property
    def bandwidth_share(self) -> float | None:
        """`bandwidth` divided by `bandwidth_limit`.

        Above 1.0, the data stayed in a nearer cache, or the harness is wrong. The value is shown as it is.
        """
        reached = self.bandwidth
        return None if reached is None or self.bandwidth_limit is None else reached / self.bandwidth_limit

    @property
    def flop_rate(self) -> float | None:
        """Floating-point operations per second at the median time; None without a time or declared operations."""
        return None if self.timing is None or self.flops is None else self.flops / (self.timing.median_ns * 1e-9)
