"""A device that is throttled is noticed."""

import os
from types import SimpleNamespace

import msgspec
import pytest

from reports.pages.run_notes import gpu_doubts
from suites.processes.gpu_lock import GpuLock
from suites.timing.gpu import POWER_CAP, DeviceManagement, DeviceState, device_management, is_throttled
from suites.unit.reports.builders import GPU, make_run

USER_CLOCKS, HARDWARE = 0x2, 0x8


@pytest.mark.parametrize(
    ("clock", "reasons", "throttled"),
    [
        (1980, USER_CLOCKS, False),
        (1935, POWER_CAP, False),
        (1700, POWER_CAP, True),
        (1980, HARDWARE, True),
    ],
)
def test_heat_brake_and_hardware_throttle_and_the_power_limit_if_the_clock_falls(clock, reasons, throttled):
    for position in range(3):
        states = [DeviceState(1980.0, 0)] * 3
        states[position] = DeviceState(clock, reasons)
        assert is_throttled(states, 1980.0) == throttled


def test_a_machine_without_nvml_has_no_management(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pynvml", None)
    device_management.cache_clear()
    assert device_management("GPU-none") is None
    device_management.cache_clear()


def test_processes_of_others_on_the_gpu_are_counted_and_named():
    pids = [os.getpid(), os.getppid(), 1]

    class Nvml:
        NVMLError = RuntimeError
        nvmlInit = nvmlDeviceGetHandleByUUID = staticmethod(lambda *words: None)  # noqa: N815

        @staticmethod
        def nvmlDeviceGetComputeRunningProcesses(handle):  # noqa: N802
            return [SimpleNamespace(pid=pid) for pid in pids]

    assert DeviceManagement(Nvml, "GPU-1").other_processes() == 1 - (os.getppid() == 1)
    pids.append(2**22 + 1)  # a number of the host, in a container
    assert DeviceManagement(Nvml, "GPU-1").other_processes() is None

    device = msgspec.structs.replace(GPU, other_processes=2, is_slowed=True)
    assert gpu_doubts(make_run(device=device)) == [
        "2 processes of others used it", "it was slowed down by hardware, heat or power"
    ]  # fmt: skip
    assert gpu_doubts(make_run(device=GPU)) == []


def test_a_command_waits_for_the_gpu_and_says_for_whom(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    one, two, said = GpuLock(), GpuLock(), []
    one.take("GPU-1", said.append)
    GpuLock().take("GPU-2", said.append)
    GpuLock().take(None, said.append)
    assert said == [], "another GPU, and a CPU, are free"
    two.take("GPU-1", said.append, sleep=lambda seconds: one.release())
    (line,) = said
    assert f"waiting for process {os.getpid()} (" in line
    assert "times on GPU-1" in line
    two.release()
    one.take("GPU-1", said.append)
    assert len(said) == 1


def test_a_link_that_another_user_has_put_there_is_not_followed(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "mine").write_text("kept")
    (tmp_path / "kernel-bridge-GPU-3.lock").symlink_to(tmp_path / "mine")
    said = []
    GpuLock().take("GPU-3", said.append)
    assert (tmp_path / "mine").read_text() == "kept"
    assert "cannot be locked" in said[0]
