"""A device that is throttled is noticed; NVML here is an imitation with the functions of the package nvidia-ml-py."""

import pytest

from suites.timing.gpu import POWER_CAP, DeviceManagement, DeviceState, device_management, is_throttled

IDLE, USER_CLOCKS, HARDWARE, SOFT_HEAT, HEAT, BRAKE = 0x1, 0x2, 0x8, 0x20, 0x40, 0x80


class FakeNvml:
    """One GPU with a clock and reasons; None is not supported."""

    NVML_CLOCK_SM = 1

    class NVMLError(Exception):
        pass

    def __init__(self, clock=1980, reasons=0):
        self.clock, self.reasons, self.asked = clock, reasons, None

    def _value(self, value):
        if value is None:
            raise self.NVMLError("not supported")
        return value

    def nvmlInit(self):  # noqa: N802  NVML's name
        pass

    def nvmlDeviceGetHandleByUUID(self, identity):  # noqa: N802
        self.asked = identity
        return "handle"

    def nvmlDeviceGetHandleByIndex(self, index):  # noqa: N802
        self.asked = index
        return "handle"

    def nvmlDeviceGetClockInfo(self, handle, kind):  # noqa: N802
        assert (handle, kind) == ("handle", 1)
        return self._value(self.clock)

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle):  # noqa: N802
        return self._value(self.reasons)

    def nvmlSystemGetDriverVersion(self):  # noqa: N802
        return "580.1"


def test_the_state_of_the_named_gpu_is_read():
    nvml = FakeNvml(clock=1755, reasons=POWER_CAP)
    management = DeviceManagement(nvml, "GPU-1234")
    assert nvml.asked == "GPU-1234"
    assert management.state() == DeviceState(1755.0, POWER_CAP)
    assert management.driver() == "580.1"
    assert DeviceManagement(FakeNvml(clock=None, reasons=None), None).state() == DeviceState(None, 0)


@pytest.mark.parametrize(
    ("clock", "reasons", "throttled"),
    [
        (345, IDLE, False),
        (1980, USER_CLOCKS, False),
        (1935, POWER_CAP, False),
        (1700, POWER_CAP, True),
        (1700, 0, False),
        (1980, HARDWARE, True),
        (1980, SOFT_HEAT, True),
        (1980, BRAKE | POWER_CAP, True),
        (None, POWER_CAP, False),
        (None, HEAT, True),
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
