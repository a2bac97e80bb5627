"""The FFI layout is read from the header, and a header that does not fit is refused."""

import re

import pytest

import bridge
from bridge.ffi.native import abi

TEXT = abi.read_header()


def test_offsets_agree_with_a_c_compiler_of_the_same_header():
    types = abi.header.types
    frame = types.new("XLA_FFI_CallFrame*")
    start = int(types.cast("uintptr_t", frame))
    assert int(types.cast("uintptr_t", types.addressof(frame.args, "args"))) == start + 8 * abi.FRAME.ARGS
    assert int(types.cast("uintptr_t", types.addressof(frame[0], "stage"))) == start + abi.FRAME.STAGE_BYTE
    assert types.sizeof("XLA_FFI_Error_Create_Args") >= abi.ERROR.BYTES


@pytest.mark.parametrize(
    ("pattern", "replacement", "complaint"),
    [
        (r"int64_t rank;", "int64_t ranks;", r"no field XLA_FFI_Buffer\.rank"),
        (r"XLA_FFI_AttrType_SCALAR = 3", "XLA_FFI_AttrType_NUMBER = 3", "no constant XLA_FFI_AttrType_SCALAR"),
        (r"#define XLA_FFI_API_MAJOR 0", "#define XLA_FFI_API_MAJOR 1", "version is 1"),
        (r"#define XLA_FFI_API_MINOR", "#define XLA_FFI_API_PATCH", "does not define XLA_FFI_API_MINOR"),
        (r"struct XLA_FFI_Buffer \{", "struct XLA_FFI_Buffer {{", "does not parse"),
        (r"  void\* data;\n  int64_t rank;", "  int32_t data;\n  int64_t rank;", "not on a word"),
    ],
)
def test_a_changed_header_is_refused_by_name(pattern, replacement, complaint):
    changed = re.sub(pattern, replacement, TEXT)
    assert changed != TEXT

    def use():
        header = abi.Header(changed)
        header.word("XLA_FFI_Buffer", "rank")
        header.word("XLA_FFI_Buffer", "data")
        header.constant("XLA_FFI_AttrType_SCALAR")

    with pytest.raises(bridge.AbiError, match=complaint) as caught:
        use()
    assert "Install a jaxlib" in str(caught.value)
    assert isinstance(caught.value, ImportError)


def test_a_field_inserted_before_another_moves_it():
    moved = abi.Header(TEXT.replace("  void* data;\n  int64_t rank;", "  void* extra;\n  void* data;\n  int64_t rank;"))
    assert moved.word("XLA_FFI_Buffer", "rank") == abi.BUFFER.RANK + 1
