"""Exceptions that kernels raise on the device, with a stand-in for CUDA's driver."""

import ctypes
import threading
from types import SimpleNamespace

import pytest

pytest.importorskip("numba.cuda", reason="numba-cuda is not installed")

from bridge.languages.numba_cuda import device_exceptions
from bridge.languages.numba_cuda.device_exceptions import raising

PLACES = ["tidx", "tidy", "tidz", "ctaidx", "ctaidy", "ctaidz"]
NAMES = [f"k__{name}__" for name in ("errcode", *PLACES)]


class Driver:
    """The variables of a module, and what was done in which order."""

    def __init__(self):
        self.values, self.done = dict.fromkeys(NAMES, 0), []

    def cuLibraryGetGlobal(self, library, name):  # noqa: N802
        assert library == "module"
        return 0, name.decode(), 4

    def cuMemsetD32Async(self, name, value, count, stream):  # noqa: N802
        self.done.append(("clear", stream))
        self.values[name] = value
        return (0,)

    def cuStreamSynchronize(self, stream):  # noqa: N802
        self.done.append(("wait", stream))
        return (0,)

    def cuMemcpyDtoH(self, target, name, size):  # noqa: N802
        self.done.append("read")
        ctypes.c_int.from_address(target).value = self.values[name]
        return (0,)


@pytest.fixture
def driver(monkeypatch):
    fake = Driver()
    monkeypatch.setattr(device_exceptions, "cu", fake)
    return fake


FUNCTION = SimpleNamespace(name="k", module=SimpleNamespace(handle="module"))


def compiled(*exceptions):
    known = dict(enumerate(exceptions, 1))
    return SimpleNamespace(call_helper=SimpleNamespace(get_exception=known.__getitem__))


def test_a_launch_without_an_exception_is_awaited(driver):
    driver.values["k__errcode__"] = 9  # of a launch before
    with raising(compiled(), FUNCTION, 5, 0):
        driver.done.append("launch")
    assert driver.done == [("clear", 5), "launch", ("wait", 5), "read"]


def test_an_exception_is_raised_with_its_thread_and_line(driver):
    kernel = compiled((KeyError, (), None), (ValueError, ("negative", 3), ("k", "/file.py", 7)))
    with (
        pytest.raises(
            ValueError, match=r"thread \(1, 2, 3\) of block \(4, 5, 6\), in k \(/file.py:7\): negative"
        ) as caught,
        raising(kernel, FUNCTION, 5, 0),
    ):
        driver.values.update(zip(NAMES, (2, 1, 2, 3, 4, 5, 6), strict=True))
    assert caught.value.args[1:] == (3,)
    assert driver.values["k__errcode__"] == 0
    with raising(kernel, FUNCTION, 5, 0):
        pass


def test_an_exception_without_arguments_names_the_thread(driver):
    with (
        pytest.raises(KeyError, match=r"thread \(0, 0, 0\) of block \(0, 0, 0\)"),
        raising(compiled((KeyError, None, None)), FUNCTION, 5, 0),
    ):
        driver.values["k__errcode__"] = 1


def test_a_launch_that_fails_is_its_own_error(driver):
    with pytest.raises(ZeroDivisionError), raising(compiled(), FUNCTION, 5, 0):
        raise ZeroDivisionError
    assert "read" not in driver.done


def test_launches_on_other_devices_do_not_wait(driver):
    kernel, done = compiled(), []

    def launch_on(ordinal):
        with raising(kernel, FUNCTION, 5, ordinal):
            done.append(ordinal)

    other = threading.Thread(target=launch_on, args=(1,))
    same = threading.Thread(target=launch_on, args=(0,))
    with raising(kernel, FUNCTION, 5, 0):
        same.start()
        other.start()
        other.join()
        assert done == [1]
    same.join()
    assert done == [1, 0]
