"""The native table agrees with a dict under every sequence of operations, also while it is read."""

from concurrent.futures import ThreadPoolExecutor

from hypothesis import given
from hypothesis import strategies as st

from bridge.ffi.native.addresses import NativeTable
from bridge.ffi.native.words import lookup

KEYS = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(1, 8).map(lambda n: n << 40)).filter(bool)


@given(st.lists(st.tuples(KEYS, st.integers(1, 5)), max_size=60))
def test_lookup_agrees_with_a_dict(operations):
    table, model = NativeTable(), {}
    for key, value in operations:
        table[key] = model[key] = value
    assert len(table) == len(model)
    assert all(key in table and lookup(table.address, key) == value for key, value in model.items())
    assert lookup(table.address, 12345) == model.get(12345, 0)
    table.forget()
    assert not any(lookup(table.address, key) for key in model)


def test_readers_see_every_published_key_while_it_grows():
    table, missing = NativeTable(), []
    published = [0]

    def read():
        for _ in range(20_000):
            newest = published[0]
            if newest and lookup(table.address, newest << 32) != newest:
                missing.append(newest)

    with ThreadPoolExecutor(3) as threads:
        readers = [threads.submit(read) for _ in range(3)]
        for key in range(1, 4000):
            table[key << 32] = key
            published[0] = key
    assert not any(reader.exception() for reader in readers)
    assert not missing
    assert all(lookup(table.address, key << 32) == key for key in range(1, 4000))
