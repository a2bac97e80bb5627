"""The native table of plans has every key that was published, also while it grows."""

from concurrent.futures import ThreadPoolExecutor

from bridge.ffi.native.addresses import NativeTable
from bridge.ffi.native.handler import lookup


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
    assert lookup(table.address, 12345) == 0
    table.forget()
    assert not any(lookup(table.address, key << 32) for key in range(1, 4000))
