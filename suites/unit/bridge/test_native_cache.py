"""The object code of the bridge's own native functions on disk: what counts, and what happens to all else."""

import concurrent.futures
import ctypes
import os
import warnings
from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np
import pytest

from bridge.ffi.native import object_code
from bridge.ffi.native.addresses import NativeTable
from bridge.ffi.native.object_code import prepared
from bridge.ffi.native.words import context_word, lookup
from suites.unit import processes

CALL = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
INT64 = numba.types.int64


def compile_sum():
    @numba.cfunc(INT64(INT64), error_model="numpy")
    def plus_context(number):
        return number + context_word(np.int64(1))

    return plus_context


def refuse():
    raise AssertionError("compiled although the code is on disk")


def result(loaded, second=40):
    words = (ctypes.c_int64 * 2)(0, second)
    loaded.set_context(ctypes.addressof(words))
    return CALL(loaded.address)(2)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("KERNEL_BRIDGE_CACHE_DIR", str(tmp_path))
    return tmp_path / "native-1"


@pytest.fixture
def file(folder):
    assert result(prepared(compile_sum, "sum")) == 42
    (file,) = folder.iterdir()
    return file


def test_the_second_time_nothing_is_compiled_and_each_copy_has_a_context_of_its_own(file):
    one, two = prepared(refuse, "sum"), prepared(refuse, "sum")
    keep = [(ctypes.c_int64 * 2)(0, value) for value in (1, 100)]
    for loaded, words in zip((one, two), keep, strict=True):
        loaded.set_context(ctypes.addressof(words))
    assert [CALL(each.address)(2) for each in (one, two)] == [3, 102]


def flip(file):
    content = file.read_bytes()
    file.write_bytes(content[:100] + bytes([content[100] ^ 1]) + content[101:])


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="this system has no owners of files")
@pytest.mark.parametrize("change", [flip, lambda file: file.chmod(0o666)], ids=["damaged", "for others to write"])
def test_a_changed_file_does_not_count_and_is_written_anew(file, change):
    change(file)
    with pytest.raises(AssertionError, match="compiled although"):
        prepared(refuse, "sum")
    assert result(prepared(compile_sum, "sum")) == 42
    assert result(prepared(refuse, "sum")) == 42


OTHERS = {
    "read_header": lambda: "another header",
    "binding.get_host_cpu_name": lambda: "another processor",
    "numba.__version__": "0.0",
    "numba.config.OPT": 0,
}


def test_code_for_anything_else_has_another_file(monkeypatch):
    def path(source=__file__):
        object_code._environment.cache_clear()
        return object_code._path("sum", source)

    before = path()
    assert path(pytest.__file__) != before
    for name, value in OTHERS.items():
        with monkeypatch.context() as changed:
            changed.setattr(f"bridge.ffi.native.object_code.{name}", value)
            assert path() != before, name
    assert path() == before


def test_without_a_folder_that_can_be_written_to_it_compiles(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("KERNEL_BRIDGE_CACHE_DIR", str(tmp_path / "file"))
    with pytest.warns(RuntimeWarning, match="cannot be kept: .* Set KERNEL_BRIDGE_CACHE_DIR"):
        assert result(prepared(compile_sum, "sum")) == 42
    with warnings.catch_warnings(action="error"):  # one warning is enough
        assert result(prepared(compile_sum, "sum")) == 42


PROGRAM = """
import jax, jax.numpy as jnp, numba
from bridge import numba_kernel
@numba.njit
def double(x, out):
    for i in range(x.size):
        out[i] = 2 * x[i]
print(numba_kernel(double, jax.ShapeDtypeStruct((3,), jnp.float32))(jnp.arange(3.0)).tolist())
"""
WITHOUT_COMPILER = f"from bridge.ffi.native import call_frame\ncall_frame.compile_target = None\n{PROGRAM}"


def test_processes_share_a_folder_and_the_later_ones_compile_no_handler(tmp_path):
    def run(program):
        return processes.output("-c", program, KERNEL_BRIDGE_CACHE_DIR=str(tmp_path), KERNEL_BRIDGE_DEBUG="1")

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        assert set(pool.map(run, [PROGRAM, PROGRAM])) == {"[0.0, 2.0, 4.0]"}
    assert run(WITHOUT_COMPILER) == "[0.0, 2.0, 4.0]"


# The native table of plans has every key that was published, also while it grows.


def test_readers_see_every_published_key_while_it_grows():
    table, missing = NativeTable(), []
    published = [0]

    def read():
        for _ in range(6000):
            newest = published[0]
            if newest and lookup(table.address, newest << 32) != newest:
                missing.append(newest)

    with ThreadPoolExecutor(3) as threads:
        readers = [threads.submit(read) for _ in range(3)]
        for key in range(1, 1500):
            table[key << 32] = key
            published[0] = key
    assert not any(reader.exception() for reader in readers)
    assert not missing
    assert all(lookup(table.address, key << 32) == key for key in range(1, 1500))
    assert lookup(table.address, 12345) == 0
    table.forget()
    assert not any(lookup(table.address, key << 32) for key in range(1, 1500))
