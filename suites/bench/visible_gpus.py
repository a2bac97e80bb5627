"""Lists the GPUs that this process may use, and gives each worker process one of them to begin with. Imports no JAX."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable

VARIABLE = "CUDA_VISIBLE_DEVICES"
"""The environment variable with the numbers or names of the GPUs that CUDA shows to a process."""


def installed_gpus() -> int:
    """Returns how many GPUs the driver knows, whatever a process may see of them; 0 without a driver.

    NVML answers without starting CUDA, which reads :data:`VARIABLE` only once in a process.
    """
    try:
        management = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return 0
    count = ctypes.c_uint()
    if management.nvmlInit_v2() != 0:
        return 0
    try:
        return count.value if management.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0 else 0
    finally:
        management.nvmlShutdown()


def visible_gpus(count: Callable[[], int] = installed_gpus) -> list[str]:
    """Returns the GPUs that this process sees, in CUDA's order, as :data:`VARIABLE` names them.

    Args:
        count: Returns the number of installed GPUs, for a process that sees all of them.
    """
    given = os.environ.get(VARIABLE)
    if given is None:
        return [str(ordinal) for ordinal in range(count())]
    names = [name.strip() for name in given.split(",")]
    # CUDA ignores what follows the first name that names nothing; -1 is the usual way to end or to empty the list.
    ends = [index for index, name in enumerate(names) if name in ("", "-1")]
    return names[: min(ends, default=len(names))]


def rotated(names: list[str], worker: str | None) -> list[str]:
    """Returns the GPUs in the order for one worker of pytest-xdist.

    All GPUs stay visible, for the checks of several devices, but another one is the first, on which most cells run.

    Args:
        names: The GPUs.
        worker: The name of the worker: ``gw0``, ``gw1`` and so on. Another name, or None, changes nothing.
    """
    number = (worker or "").removeprefix("gw")
    if not names or not number.isdecimal():
        return names
    first = int(number) % len(names)
    return names[first:] + names[:first]


def begin_with_own_gpu(count: Callable[[], int] = installed_gpus) -> None:
    """Sets :data:`VARIABLE` so that this worker of pytest-xdist begins with a GPU of its own, as far as there are some.

    CUDA must not have started. Without several GPUs, or outside of a worker, nothing changes.

    Args:
        count: As for :func:`visible_gpus`.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    names = visible_gpus(count) if worker else []
    if len(names) > 1:
        os.environ[VARIABLE] = ",".join(rotated(names, worker))
