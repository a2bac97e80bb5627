"""The FFI layout is read from the header, and a header that does not fit is refused."""

import ctypes
import re
import shutil
import subprocess
import warnings
from pathlib import Path

import jax
import jax.ffi
import jax.numpy as jnp
import numpy as np
import pytest

import bridge
from bridge import AbiError, AbiWarning, numba_kernel
from bridge.compat import numba as of_numba
from bridge.compat.library import Library
from bridge.ffi.native import abi
from suites.unit import processes
from suites.unit.bridge import kernels

TEXT = abi.read_header()


def test_every_offset_and_constant_agrees_with_a_c_compiler_of_the_same_header(tmp_path):
    compiler = shutil.which("cc") or pytest.skip("there is no C compiler")
    plain = re.sub(r"//[^\n]*", "", TEXT)
    structs = {name: abi.header.struct(name) for name in re.findall(r"struct (\w+) \{", plain)}
    # A macro of the header declares the functions of its table; the others are constants of enumerations.
    constants = re.findall(r"^  (XLA_FFI_\w+) = ", plain, flags=re.MULTILINE)
    assert len(structs) > 30
    assert len(constants) > 60
    expressions = [f"sizeof(struct {name})" for name in structs]
    expressions += [f"offsetof(struct {name}, {field})" for name in structs for field, _ in structs[name]._fields_]
    program = Path(tmp_path, "layout.c")
    program.write_text(
        '#include <stdio.h>\n#include "xla/ffi/api/c_api.h"\nint main() {'
        + "".join(f'printf("%lld\\n", (long long)({each}));' for each in [*expressions, *constants])
        + "}"
    )
    includes = jax.ffi.include_dir()
    subprocess.run([compiler, "-w", f"-I{includes}", str(program), "-o", str(tmp_path / "layout")], check=True)
    printed = subprocess.run([tmp_path / "layout"], check=True, capture_output=True, text=True).stdout
    expected = [ctypes.sizeof(each) for each in structs.values()]
    expected += [abi.header.byte(name, field) for name in structs for field, _ in structs[name]._fields_]
    expected += [abi.header.constant(name) for name in constants]
    assert expected == list(map(int, printed.split()))


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("int64_t rank;", "int64_t ranks;", r"no field XLA_FFI_Buffer\.rank"),
        ("XLA_FFI_AttrType_SCALAR = 3", "XLA_FFI_AttrType_SCALAR", "no number XLA_FFI_AttrType_SCALAR"),
        ("#define XLA_FFI_API_MAJOR 0", "#define XLA_FFI_API_MAJOR 1", r"the version 1\.\d+, expected 0\.x"),
        ("struct XLA_FFI_Buffer {", "struct __attribute__((packed)) XLA_FFI_Buffer {", "no struct XLA_FFI_Buffer"),
        ("  void* data;\n  int64_t rank;", "  int32_t data;\n  int64_t rank;", "not on a word"),
    ],
)
def test_a_changed_header_is_refused_by_name(old, new, complaint):
    assert old in TEXT

    def use():
        header = abi.Header(TEXT.replace(old, new))
        header.word("XLA_FFI_Buffer", "rank")
        header.word("XLA_FFI_Buffer", "data")
        header.constant("XLA_FFI_AttrType_SCALAR")

    with pytest.raises(bridge.AbiError, match=complaint) as caught:
        use()
    assert "Install a jaxlib" in str(caught.value)
    assert isinstance(caught.value, ImportError)


CHANGED = """
import sys
import jax.ffi
jax.ffi.include_dir = lambda: sys.argv[1]
import jax, jax.numpy as jnp, numba
from bridge import AbiError, numba_kernel
def double(x, out):
    for i in numba.prange(x.size):
        out[i] = 2 * x[i]
print(numba_kernel(numba.njit(double), jax.ShapeDtypeStruct((4,), jnp.float32))(jnp.ones(4)).sum())
try:
    numba_kernel(numba.njit(parallel=True)(double), jax.ShapeDtypeStruct((4,), jnp.float32))(jnp.ones(4))
except AbiError as error:
    print(error)
"""


def test_a_header_counts_by_what_a_kernel_needs_of_it(tmp_path):
    """The header of jaxlib 0.11.2 has another name for the start of an extension than the one of 0.10.2."""
    names = {"XLA_FFI_Extension_Base": "XLA_FFI_InternalExtension", "XLA_FFI_ThreadPool_Schedule": "Schedule_2"}
    (header := tmp_path / "xla/ffi/api/c_api.h").parent.mkdir(parents=True)
    header.write_text(re.sub("|".join(names), lambda match: names[match[0]], TEXT))
    result, said = processes.output("-c", CHANGED, tmp_path).splitlines()
    assert result == "8.0"
    assert re.match("bridge does not understand .* no field XLA_FFI_Api.XLA_FFI_ThreadPool_Schedule.* Install a", said)


# Insides of other libraries: one that has changed is an AbiError that names the library, and no wrong result.


X = jnp.arange(4.0)


def test_a_missing_name_says_what_is_installed_and_what_was_tried():
    library = Library("numpy", "1.0", "99", {})
    with pytest.raises(AbiError, match=rf"numpy {np.__version__}: numpy\.a\.b is missing\. Install .* 1\.0 to 99\."):
        library.get(np, "a.b")


def test_a_newer_library_is_warned_of_once_and_its_patches_are_not():
    major, minor, _ = np.__version__.split(".")
    with warnings.catch_warnings(record=True, action="always") as caught:
        for newest in (f"{major}.{minor}", "1.26"):
            library = Library("numpy", "1.0", newest, {})
            assert [library.get(np, "pi") for _ in range(2)] == [np.pi] * 2
    assert [each.category for each in caught] == [AbiWarning]


def test_another_layout_of_numbas_code_is_an_error(monkeypatch):
    call = numba_kernel(kernels.double_parallel, lambda x: x)
    monkeypatch.setattr(of_numba, "_RUNTIME", {of_numba.PARALLEL_FOR: "void (ptr)"})
    with pytest.raises(AbiError, match=r"not understand numba .*parallel_for is void \(ptr, .*, not void \(ptr\)"):
        call(X)
    monkeypatch.undo()
    np.testing.assert_array_equal(call(X), 2 * X)


def test_another_launch_of_numba_cuda_is_an_error(monkeypatch):
    of_cuda = pytest.importorskip("bridge.compat.numba_cuda", reason="numba-cuda is not installed")
    for name, check in (("_FIELDS", of_cuda.check_layout), ("launch_by_numba", of_cuda.patch)):
        monkeypatch.setattr(of_cuda, name, lambda self, kernel: None)
        check.cache_clear()
        with pytest.raises(
            AbiError, match=r"does not understand numba-cuda .*(fields|takes self kernel, not self args)"
        ):
            check()
