"""What all cells of a run share: the code, the machine, the device, the versions and flags."""

from typing import Literal

from reports.records.part import Part, require_rates, require_utc

Platform = Literal["cpu", "cuda"]


class Device(Part, frozen=True, kw_only=True):
    """The device that ran a cell: `kind` as JAX names it, `sm_clock_mhz` as sampled at the run's start."""

    platform: Platform
    kind: str
    ordinal: int = 0
    uuid: str | None = None
    driver: str | None = None
    cuda: str | None = None
    l2_bytes: int | None = None
    sm_clock_mhz: int | None = None
    memory_bytes: int | None = None


class Host(Part, frozen=True, kw_only=True):
    """The machine: CPU model, cores, those this process may use, threads by library, OS."""

    cpu: str
    cores: int
    affinity: list[int]
    threads: dict[str, int]
    os: str


class Source(Part, frozen=True, kw_only=True):
    """The code that ran: git commit, and whether the tree had changes; None outside a checkout."""

    commit: str | None = None
    dirty: bool | None = None


class Run(Part, frozen=True, kw_only=True):
    """What all cells of one session on one device share; each record repeats it, so a line stands alone.

    Attributes:
        run_id: Sortable by time, see `new_run_id`.
        started: ISO 8601 with its offset, in UTC.
        profile: Name of the selection that ran, such as `quick` or `full`.
        source: The code that ran.
        host: The machine.
        device: The device.
        versions: Library versions by distribution name.
        flags: Settings that change the generated code (`x64`, `XLA_FLAGS`, `matmul_precision`,
            `command_buffers`): runs that differ in any of them are not compared.
        copy_bandwidth: Bytes per second (read plus written) of a copy, measured on this device in this run.
        peak_flops: Floating-point operations per second, measured likewise.
    """

    run_id: str
    started: str
    profile: str
    source: Source
    host: Host
    device: Device
    versions: dict[str, str]
    flags: dict[str, str | bool | int | None]
    copy_bandwidth: float | None = None
    peak_flops: float | None = None

    def __post_init__(self) -> None:
        require_utc("run: started", self.started)
        require_rates("run", copy_bandwidth=self.copy_bandwidth, peak_flops=self.peak_flops)
