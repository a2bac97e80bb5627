"""A device that is throttled is noticed."""

import pytest

from suites.timing.gpu import POWER_CAP, DeviceState, device_management, is_throttled

IDLE, USER_CLOCKS, HARDWARE, SOFT_HEAT, HEAT, BRAKE = 0x1, 0x2, 0x8, 0x20, 0x40, 0x80


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
