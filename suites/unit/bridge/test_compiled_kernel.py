"""A compiled kernel is identified by its code, and two kernels never share an entry."""

import multiprocessing
import os

import pytest

from bridge import BridgeError
from bridge.ffi.native.call_frame import Arrays
from bridge.ffi.plans.device import DevicePlan
from bridge.ffi.target import Target, key_of
from bridge.languages import Compiled


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


def test_two_descriptions_of_one_key_are_refused(monkeypatch):
    def built():
        return DevicePlan([]).keep(Arrays("none", [], [(0, 4)])), None

    own = Target("bridge_test", "cpu", lambda: None)
    monkeypatch.setattr(own, "install", lambda: None)
    entry = own.publish("first", built)
    assert own.publish("first", built) == entry
    assert own.publish("second", built) != entry
    monkeypatch.setattr("bridge.ffi.target.key_of", lambda description: key_of("first"))
    with pytest.raises(BridgeError, match="third has the key of another kernel"):
        own.publish("third", built)
    assert len(own) == 2
