"""The native table agrees with a dict under every sequence of operations."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.ffi.native.lookup import lookup
from bridge.ffi.native.table import NativeTable

KEYS = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(1, 8).map(lambda n: n << 40)).filter(bool)


@given(st.lists(st.tuples(KEYS, st.integers(1, 5)), max_size=60))
def test_lookup_agrees_with_a_dict(operations):
    table, model = NativeTable(), {}
    for key, value in operations:
        table[key] = model[key] = value
    assert len(table) == len(model)
    for key, _ in operations:
        assert lookup(table.address, key) == model.get(key, 0)
        assert (key in table) == (key in model)


def test_it_grows_and_keeps_every_key():
    table = NativeTable()
    for key in range(1, 5000):
        table[key << 32] = key
    assert [lookup(table.address, key << 32) for key in (1, 2500, 4999)] == [1, 2500, 4999]


@pytest.mark.parametrize(("key", "value"), [(0, 1), (1, 0)])
def test_zero_is_refused(key, value):
    with pytest.raises(ValueError, match="must not be 0"):
        NativeTable()[key] = value


def test_readers_see_every_published_key_while_writers_grow_it():
    table, missing = NativeTable(), []
    published = [0]

    def read():
        for _ in range(20_000):
            newest = published[0]
            if newest and lookup(table.address, newest) != newest:
                missing.append(newest)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for key in range(1, 4000):
        table[key] = key
        published[0] = key
    for reader in readers:
        reader.join()
    assert not missing
