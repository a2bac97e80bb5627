"""The object code of the bridge's own native functions on disk: what counts, and what happens to all else."""

import concurrent.futures
import ctypes
import os
import warnings

import numba
import numpy as np
import pytest

from bridge.ffi.native import object_files, trampoline
from bridge.ffi.native.object_code import emit_object
from bridge.ffi.native.prepared import prepared
from bridge.ffi.native.words import context_word
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


def result(loaded, first=0, second=40):
    words = (ctypes.c_int64 * 2)(first, second)
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


def test_the_second_time_nothing_is_compiled(file):
    assert result(prepared(refuse, "sum")) == 42


def test_two_copies_of_one_code_have_contexts_of_their_own(file):
    one, two = prepared(refuse, "sum"), prepared(refuse, "sum")
    keep = [(ctypes.c_int64 * 2)(0, value) for value in (1, 100)]
    for loaded, words in zip((one, two), keep, strict=True):
        loaded.set_context(ctypes.addressof(words))
    assert [CALL(each.address)(2) for each in (one, two)] == [3, 102]


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda content: content[:-1], id="cut short"),
        pytest.param(lambda content: b"", id="empty"),
        pytest.param(lambda content: content[:40], id="a part"),
        pytest.param(lambda content: content[:100] + bytes([content[100] ^ 1]) + content[101:], id="one bit"),
        pytest.param(lambda content: bytes([content[0] ^ 1]) + content[1:], id="a bit of the digest"),
        pytest.param(lambda content: content + b"\0", id="longer"),
    ],
)
def test_a_damaged_file_does_not_count_and_is_written_anew(file, damage):
    right = file.read_bytes()
    file.write_bytes(damage(right))
    with pytest.warns(RuntimeWarning, match="is damaged, so it does not count"):
        assert result(prepared(compile_sum, "sum")) == 42
    assert file.read_bytes() != damage(right)
    assert result(prepared(refuse, "sum")) == 42


def test_the_file_of_another_function_does_not_count(file, folder):
    other = folder / object_files._path("other", object_files._key("other", __file__)).name
    other.write_bytes(file.read_bytes())
    with pytest.warns(RuntimeWarning, match="is damaged"):
        assert object_files.read_object("other", __file__) is None
    assert object_files.read_object("sum", __file__) is not None


@pytest.mark.parametrize("part", ["header", "cpu", "features", "numba", "llvm", "setting", "source"])
def test_code_for_anything_else_does_not_count(file, part, monkeypatch, tmp_path):
    source = __file__
    object_files._environment.cache_clear()
    match part:
        case "header":
            monkeypatch.setattr(object_files, "read_header", lambda: "another header")
        case "cpu":
            monkeypatch.setattr(object_files.binding, "get_host_cpu_name", lambda: "another processor")
        case "features":
            features = object_files.binding.get_host_cpu_features()
            features["avx512f"] = not features.get("avx512f")
            monkeypatch.setattr(object_files.binding, "get_host_cpu_features", lambda: features)
        case "numba":
            monkeypatch.setattr(object_files.numba, "__version__", "0.0")
        case "llvm":
            monkeypatch.setattr(object_files.binding, "llvm_version_info", (0, 0, 0))
        case "setting":
            monkeypatch.setattr(object_files.numba.config, "OPT", 0)
        case "source":
            source = str(tmp_path / "changed.py")
            (tmp_path / "changed.py").write_text("another function")
    try:
        assert object_files.read_object("sum", source) is None
    finally:
        object_files._environment.cache_clear()


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="this system has no owners of files")
def test_a_file_that_others_can_write_to_does_not_count(file):
    file.chmod(0o666)
    with pytest.warns(RuntimeWarning, match="others can write to it"):
        assert object_files.read_object("sum", __file__) is None


def test_without_a_folder_that_can_be_written_to_it_compiles(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("KERNEL_BRIDGE_CACHE_DIR", str(tmp_path / "file"))
    with pytest.warns(RuntimeWarning, match="cannot be kept: .* Set KERNEL_BRIDGE_CACHE_DIR"):
        assert result(prepared(compile_sum, "sum")) == 42
    with warnings.catch_warnings(action="error"):  # one warning is enough
        assert result(prepared(compile_sum, "sum")) == 42


def test_only_the_latest_files_are_kept(file, folder, monkeypatch):
    monkeypatch.setattr(object_files, "KEPT", 3)
    for index in range(5):
        object_files.write_object(f"other{index}", __file__, b"code")
        os.utime(next(folder.glob(f"other{index}-*")), (index, index))
    object_files.write_object("last", __file__, b"code")
    assert len(list(folder.glob("*.bin"))) == 3
    assert not list(folder.glob("*.tmp"))


def test_code_that_needs_something_from_outside_is_not_kept(folder):
    def compile_outside():
        @numba.cfunc(INT64(INT64))
        def divided(number):
            return 10 // number  # raises an exception in Python

        return divided

    loaded = prepared(compile_outside, "outside")
    assert CALL(loaded.address)(5) == 2
    assert not folder.exists()
    _, outside = emit_object(compile_outside())
    assert outside


PROGRAM = """
import jax, jax.numpy as jnp, numba
from bridge import numba_kernel
@numba.njit
def double(x, out):
    for i in range(x.size):
        out[i] = 2 * x[i]
print(numba_kernel(double, jax.ShapeDtypeStruct((3,), jnp.float32))(jnp.arange(3.0)).tolist())
"""


def test_processes_that_start_at_once_share_a_folder(tmp_path):
    def run(_):
        return processes.output("-c", PROGRAM, KERNEL_BRIDGE_CACHE_DIR=str(tmp_path))

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        assert set(pool.map(run, range(3))) == {"[0.0, 2.0, 4.0]"}
    names = {path.name.partition("-")[0] for path in (tmp_path / "native-1").iterdir()}
    assert names == {"bridge_cpu", "bridge_error"}


def test_handlers_of_debug_mode_are_kept_too(tmp_path):
    handlers = {"bridge_cpu", "bridge_cpu_poisoned", "bridge_error"}
    without_compiler = f"from bridge.ffi.native import handler\nhandler.compile_target = None\n{PROGRAM}"
    for each in (PROGRAM, without_compiler):
        changes = {"KERNEL_BRIDGE_CACHE_DIR": str(tmp_path), "KERNEL_BRIDGE_DEBUG": "1"}
        assert processes.output("-c", each, **changes) == "[0.0, 2.0, 4.0]"
        assert {path.name.partition("-")[0] for path in (tmp_path / "native-1").iterdir()} == handlers


def test_a_folder_of_damaged_files_costs_time_only(tmp_path):
    processes.output("-c", PROGRAM, KERNEL_BRIDGE_CACHE_DIR=str(tmp_path))
    for path in (tmp_path / "native-1").iterdir():
        path.write_bytes(path.read_bytes()[:500] + b"\xcc" * 500)
    assert processes.output("-c", PROGRAM, KERNEL_BRIDGE_CACHE_DIR=str(tmp_path)) == "[0.0, 2.0, 4.0]"


@pytest.mark.parametrize("make", [trampoline._written, trampoline._compiled])
def test_a_trampoline_passes_calls_on_and_can_be_turned(make):
    one, two = CALL(lambda number: number + 1), CALL(lambda number: -number)
    cell = (ctypes.c_int64 * 1)(ctypes.cast(one, ctypes.c_void_p).value)
    made = make(ctypes.addressof(cell))
    if made is None:
        pytest.skip("no machine code is written by hand for this system and processor")
    owner, address = made
    assert owner
    assert CALL(address)(41) == 42
    cell[0] = ctypes.cast(two, ctypes.c_void_p).value
    assert CALL(address)(41) == -41


def test_where_the_system_runs_no_written_code_llvm_makes_the_trampoline(monkeypatch):
    monkeypatch.setattr(trampoline.platform, "machine", lambda: "another")
    assert trampoline._written(0) is None
    one = CALL(lambda number: number + 1)
    made = trampoline.Trampoline(ctypes.cast(one, ctypes.c_void_p).value)
    assert CALL(made.address)(1) == 2
