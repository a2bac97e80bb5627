"""A compiled kernel is identified by its code, and two kernels never share an entry."""

import multiprocessing
import os

import numpy as np
import pytest

from bridge import BridgeError
from bridge.ffi.built import Built
from bridge.ffi.plans.device import DevicePlan
from bridge.ffi.table_entry import key_of
from bridge.ffi.target import Target
from bridge.languages import Compiled


def compiled(code):
    return Compiled(code, lambda: None)


def test_equal_code_is_one_kernel_and_other_code_another():
    assert compiled("code").identity == compiled(b"code").identity
    codes = ("code", "other", "", "\ud800".encode(errors="surrogatepass"))
    assert len({compiled(code).identity for code in codes}) == 4


def test_code_of_this_process_is_never_another_one():
    first, second = compiled(None), compiled(None)
    assert first.identity != second.identity
    assert first.identity.startswith("local")


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
        return Built(DevicePlan("none", [], [(0, 4)], []))

    own = Target("bridge_test", "cpu", lambda: None)
    monkeypatch.setattr(own, "install", lambda: None)
    entry = own.publish("first", built)
    assert own.publish("first", built) is entry
    assert own.publish("second", built) is not entry
    monkeypatch.setattr("bridge.ffi.table_entry.key_of", lambda description: key_of("first"))
    with pytest.raises(BridgeError, match="third has the key of another kernel"):
        own.publish("third", built)
    assert np.array_equal(sorted(own._entries), ["first", "second"])
