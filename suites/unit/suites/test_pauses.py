"""Running threads are paused in the midst of compiled code, and go on as if nothing had happened."""

import sys
import threading
import time

import numba
import pytest

from suites.checks.judging.pauses import Pauses


@numba.njit(nogil=True)
def spin(turns):
    total = 0.0
    for i in range(turns):
        total += 1.0 / (1.0 + i)
    return total


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="signals pause threads on Linux alone")
def test_threads_in_compiled_code_are_paused_and_go_on():
    expected = spin(20_000_000)
    found = []
    with Pauses() as pauses:
        threads = [threading.Thread(target=lambda: found.append(spin(20_000_000))) for _ in range(2)]
        for thread in threads:
            thread.start()
        begin = time.perf_counter()
        for thread in threads:
            thread.join()
        while not pauses.count and time.perf_counter() - begin < 20:  # on a busy machine the pauses come late
            spin(20_000_000)
    assert found == [expected] * 2
    assert pauses.count > 0
    ended = pauses.count
    time.sleep(0.01)
    assert pauses.count == ended
