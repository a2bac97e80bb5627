"""A compiled kernel is identified by its code, and two kernels never share an entry."""

import multiprocessing
import os

import pytest

from bridge.kernel import Compiled


def compiled(code):
    return Compiled(code, lambda: None)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be forked here")
@pytest.mark.filterwarnings("ignore:.*fork")
def test_a_forked_process_is_another_one():
    ours = compiled(None).identity
    receive, send = multiprocessing.Pipe()
    if (child := os.fork()) == 0:
        send.send(compiled(None).identity)
        os._exit(0)
    os.waitpid(child, 0)
    theirs = receive.recv()
    # Both count on from the same number.
    assert theirs.rsplit("-", 1)[0] != ours.rsplit("-", 1)[0]
    assert ours.rsplit("-", 1)[0] == compiled(None).identity.rsplit("-", 1)[0]
