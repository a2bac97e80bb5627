"""Checks that calls run in two processes that ``jax.distributed`` connects. A pair starts once, for all checks."""

import functools
import json
import socket
from concurrent.futures import ThreadPoolExecutor

import jax
import pytest

from suites.unit import processes
from suites.unit.bridge import two_processes


@functools.cache
def outcomes(platforms):
    """What each of the two processes says of each check."""
    with socket.socket() as listener:
        listener.bind(("localhost", 0))
        coordinator = f"localhost:{listener.getsockname()[1]}"

    def run(number):
        own = {"PROCESSES": "2", "PROCESS": number, "COORDINATOR": coordinator, "JAX_PLATFORMS": platforms}
        own |= {"CUDA_VISIBLE_DEVICES": number, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
        return json.loads(processes.output("-W", "error", two_processes.__file__, **own).splitlines()[-1])

    with ThreadPoolExecutor() as pool:
        return list(pool.map(run, "01"))


@pytest.mark.parametrize("check", two_processes.CHECKS)
def test_two_processes(check):
    assert [each[check] for each in outcomes("cpu")] == ["right"] * 2


@pytest.mark.skipif(jax.default_backend() != "gpu" or jax.device_count() < 2, reason="needs two GPUs")
@pytest.mark.parametrize("check", two_processes.ON_GPUS)
def test_two_processes_with_a_gpu_each(check):
    assert [each[check] for each in outcomes("cuda,cpu")] == ["right"] * 2
