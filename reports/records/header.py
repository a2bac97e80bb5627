"""Describes a run: its code, machine, device, versions and flags."""

from typing import Literal

import msgspec

from reports.errors import RecordError
from reports.records.part import Amount, Part, Whole, require_utc

Platform = Literal["cpu", "cuda"]


class Device(Part, frozen=True, kw_only=True):
    """The device that ran a cell.

    Attributes:
        platform: `cpu` or `cuda`.
        kind: The name that JAX gives it; for a CPU, its model.
        ordinal: Its number within the platform.
        uuid: Its identity.
        driver: Version of the driver.
        cuda: Version of CUDA that the driver supports.
        l2_bytes: Size of the L2 cache.
        sm_clock_mhz: Clock of the multiprocessors when the run started.
        memory_bytes: Size of its memory.
        other_processes: Processes of others that used it when the run started; None where that is not known.
        is_slowed: Whether hardware, heat or power slowed it down then; None where that is not known.
    """

    platform: Platform
    kind: str
    ordinal: Whole = 0
    uuid: str | None = None
    driver: str | None = None
    cuda: str | None = None
    l2_bytes: Whole | None = None
    sm_clock_mhz: Whole | None = None
    memory_bytes: Whole | None = None
    other_processes: Whole | None = None
    is_slowed: bool | None = None


class Host(Part, frozen=True, kw_only=True):
    """The machine.

    Attributes:
        cpu: Model of the CPU.
        cores: Number of cores.
        affinity: The cores that the process may use.
        threads: Number of threads, by library.
        os: The operating system.
        load: Mean number of busy processes over the minute before the run; None if it was not recorded.
        memory_bytes: Size of its memory.
        machine: Identifies the machine: a digest of its id, its CPU, its cores, its memory and its operating system.
            Runs of two machines are not compared. None if it was not recorded.
    """

    cpu: str
    cores: Whole
    affinity: list[Whole]
    threads: dict[str, Whole]
    os: str
    load: Amount | None = None
    memory_bytes: Whole | None = None
    machine: str | None = None


class Source(Part, frozen=True, kw_only=True):
    """The code that ran.

    Attributes:
        commit: The git commit of the repository that holds the operators: a user's own. None outside a checkout.
        dirty: Whether its work tree had uncommitted changes. None outside a checkout.
        project: The name of that repository, by its `pyproject.toml` or its folder. None outside a checkout.
        digest: Identifies the content of the files that ran: of this project, of the operators and of the files that
            they import. None if it was not recorded.
    """

    commit: str | None = None
    dirty: bool | None = None
    project: str | None = None
    digest: str | None = None


class Run(Part, frozen=True, kw_only=True):
    """The header of a run, which all cells of one session on one device share. Each record repeats it.

    Attributes:
        run_id: Sorts by time, see `new_run_id`.
        started: ISO 8601, UTC.
        profile: Name of the selection that ran, such as `quick` or `full`.
        source: The code that ran.
        host: The machine.
        device: The device.
        versions: Library versions, by the name of the distribution.
        flags: Settings that change the generated code or its speed, such as `XLA_FLAGS` or `matmul_precision`. Runs
            that differ in a flag are not compared.
        selection: The selected cells: the values of each option, such as `operator`. None if it was not recorded.
        peers: The backends that are other libraries, timed beside the kernels: the name of the library by backend, with
            its version if it is installed.
        part: The part of the selected cells that this run has, such as `3/8`; None if it has all.

    Raises:
        RecordError: `started` is not a time in UTC, or `part` is invalid.
    """

    run_id: str
    started: str
    profile: str
    source: Source
    host: Host
    device: Device
    versions: dict[str, str]
    flags: dict[str, str | bool | Whole | None]
    selection: dict[str, list[str]] | None = None
    peers: dict[str, str] = msgspec.field(default_factory=dict)
    part: str | None = None

    def __post_init__(self) -> None:
        require_utc("run: started", self.started)
        if self.part is not None:
            part_of(self.part)


def part_of(text: str) -> tuple[int, int]:
    """Returns the number of a part and the number of all parts: (3, 8) for `3/8`.

    Raises:
        RecordError: The text names no part.
    """
    number, _, count = text.partition("/")
    if not (number.isascii() and number.isdigit() and count.isascii() and count.isdigit() and len(text) < 20):
        raise RecordError(f"part={text[:40]!r}; expected the number of a part and of all parts, such as '3/8'.")
    if not 1 <= int(number) <= int(count):
        raise RecordError(f"part={text!r}; expected a part from 1 to {count}.")
    return int(number), int(count)
