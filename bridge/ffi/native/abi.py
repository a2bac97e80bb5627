"""Reads the layout of XLA's FFI structs from the C header that the installed jaxlib ships.

Native handlers address a struct as an array of 8-byte words, so most offsets here are word indices. Fields of 32 bits
have byte offsets, and names that end in ``_BYTE``. All offsets come from the header. If it cannot be read, or lacks a
field that every handler needs, importing this module raises :class:`~bridge.errors.AbiError`.
"""

from __future__ import annotations

import ctypes
import re
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import jax.ffi
from jaxlib.version import __version__ as jaxlib_version

from bridge.errors import AbiError
from bridge.ffi.native.c_declarations import CDeclarations, UnreadableDeclarationError

T = TypeVar("T")

WORD_BYTES = 8


class Header:
    """The parsed text of ``xla/ffi/api/c_api.h``.

    Raises:
        AbiError: The text is not the C declarations of a known major version of XLA's FFI.
    """

    def __init__(self, text: str):
        self._declarations = _known(lambda: CDeclarations(_without_macros(text)))
        self.major, self.minor = (self._macro(text, f"XLA_FFI_API_{part}") for part in ("MAJOR", "MINOR"))
        if self.major != 0:
            raise _unknown(f"its version is {self.major}.{self.minor}, expected 0.x")

    @staticmethod
    def _macro(text: str, name: str) -> int:
        found = re.search(rf"#define\s+{name}\s+(\d+)", text)
        if found is None:
            raise _unknown(f"c_api.h does not define {name}")
        return int(found[1])

    def struct(self, name: str) -> type[ctypes.Structure]:
        """A struct, in which every pointer has the type ``c_void_p``."""
        return _known(lambda: self._declarations.struct(name))

    def _field(self, name: str, path: tuple[str, ...]) -> tuple[int, int]:
        """Byte offset and size of a field; a path reaches into structs held by value."""
        offset, size, struct = 0, 0, cast(Any, self.struct(name))
        for field in path:
            found = getattr(struct, field, None)
            if found is None:
                raise _unknown(f"c_api.h has no field {name}.{'.'.join(path)}")
            offset, size, struct = offset + found.offset, found.size, dict(struct._fields_)[field]
        return offset, size

    def byte(self, struct: str, *path: str) -> int:
        """Byte offset of a field; a path reaches into structs held by value."""
        return self._field(struct, path)[0]

    def word(self, struct: str, *path: str) -> int:
        """Word index of a field; a path reaches into structs held by value."""
        byte = self.byte(struct, *path)
        if byte % WORD_BYTES:
            raise _unknown(f"{struct}.{'.'.join(path)} lies at byte {byte}, not on a word")
        return byte // WORD_BYTES

    def end(self, struct: str, field: str) -> int:
        """Bytes from the start of a struct to the end of one field, as XLA's ``*_STRUCT_SIZE`` constants count."""
        return sum(self._field(struct, (field,)))

    def names(self, enumeration: str) -> dict[int, str]:
        """The enumerators of an enumeration by their values."""
        values = _known(lambda: self._declarations.enumerators(enumeration))
        return {value: name for name, value in values.items()}

    def constant(self, name: str) -> int:
        """Value of an enumerator."""
        return _known(lambda: self._declarations.constant(name))


def _without_macros(text: str) -> str:
    """The declarations of the header: no directives of the preprocessor, and no macro calls."""
    text = re.sub(r"^\s*#(?:[^\n]*\\\n)*[^\n]*", "", text, flags=re.MULTILINE)
    text = re.sub(r"XLA_FFI_DEFINE_STRUCT_TRAITS\((\w+),\s*\w+\);", r"typedef struct \1 \1;", text)
    text = re.sub(r"_XLA_FFI_API_STRUCT_FIELD\((\w+)\);", r"void* \1;", text)
    return re.sub(r'extern "C" \{(.*)\}', r"\1", text, flags=re.DOTALL)


def _known(read: Callable[[], T]) -> T:
    try:
        return read()
    except UnreadableDeclarationError as error:
        raise _unknown(f"c_api.h has {error}") from error


def _unknown(what: str) -> AbiError:
    return AbiError(
        f"bridge does not understand the XLA FFI of jaxlib {jaxlib_version}: {what}. "
        "Install a jaxlib that this release of kernel-bridge supports."
    )


def read_header() -> str:
    """Text of the header shipped by the installed jaxlib.

    Raises:
        AbiError: jaxlib ships no readable header.
    """
    path = Path(jax.ffi.include_dir(), "xla", "ffi", "api", "c_api.h")
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise _unknown(f"{path} cannot be read ({error})") from error


def constants(name: str, **values: int) -> Any:
    """Returns a named tuple, which Numba compiles to constants."""
    return namedtuple(name, values)(**values)


header = Header(read_header())
_word, _byte = header.word, header.byte

VERSION = constants("Version", MAJOR=header.major, MINOR=header.minor)

NEWEST = (0, 5)
"""The newest version that the bridge was tested with; :mod:`bridge.ffi.newer_ffi` tries a newer one."""

FRAME = constants(
    "Frame",
    SIZE=_word("XLA_FFI_CallFrame", "struct_size"),
    EXTENSION=_word("XLA_FFI_CallFrame", "extension_start"),
    API=_word("XLA_FFI_CallFrame", "api"),
    CONTEXT=_word("XLA_FFI_CallFrame", "ctx"),
    STAGE_BYTE=_byte("XLA_FFI_CallFrame", "stage"),
    ARG_COUNT=_word("XLA_FFI_CallFrame", "args", "size"),
    ARGS=_word("XLA_FFI_CallFrame", "args", "args"),
    RET_COUNT=_word("XLA_FFI_CallFrame", "rets", "size"),
    RETS=_word("XLA_FFI_CallFrame", "rets", "rets"),
    ATTR_COUNT=_word("XLA_FFI_CallFrame", "attrs", "size"),
    ATTR_TYPES=_word("XLA_FFI_CallFrame", "attrs", "types"),
    ATTRS=_word("XLA_FFI_CallFrame", "attrs", "attrs"),
    LEAST_SIZE=header.end("XLA_FFI_CallFrame", "attrs"),
    EXECUTE=header.constant("XLA_FFI_ExecutionStage_EXECUTE"),
)

BUFFER = constants(
    "Buffer",
    DATA=_word("XLA_FFI_Buffer", "data"),
    RANK=_word("XLA_FFI_Buffer", "rank"),
    DIMS=_word("XLA_FFI_Buffer", "dims"),
)

ATTRIBUTE = constants(
    "Attribute",
    ARRAY_TYPE=header.constant("XLA_FFI_AttrType_ARRAY"),
    SCALAR_TYPE=header.constant("XLA_FFI_AttrType_SCALAR"),
    SCALAR_VALUE=_word("XLA_FFI_Scalar", "value"),
)

ARRAY = constants(
    "Array",
    DTYPE_BYTE=_byte("XLA_FFI_Array", "dtype"),
    SIZE=_word("XLA_FFI_Array", "size"),
    DATA=_word("XLA_FFI_Array", "data"),
    INT32=header.constant("XLA_FFI_DataType_S32"),
    INT64=header.constant("XLA_FFI_DataType_S64"),
)

EXTENSION = constants(
    "Extension",
    TYPE_BYTE=_byte("XLA_FFI_Metadata_Extension", "extension_base", "type"),
    METADATA_TYPE=header.constant("XLA_FFI_Extension_Metadata"),
    METADATA=_word("XLA_FFI_Metadata_Extension", "metadata"),
)

METADATA = constants(
    "Metadata",
    MAJOR_BYTE=_byte("XLA_FFI_Metadata", "api_version", "major_version"),
    MINOR_BYTE=_byte("XLA_FFI_Metadata", "api_version", "minor_version"),
    TRAITS_BYTE=_byte("XLA_FFI_Metadata", "traits"),
    COMMAND_BUFFER=header.constant("XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE"),
)

API = constants(
    "Api",
    ERROR_CREATE=_word("XLA_FFI_Api", "XLA_FFI_Error_Create"),
    STREAM_GET=_word("XLA_FFI_Api", "XLA_FFI_Stream_Get"),
    DEVICE_ORDINAL_GET=_word("XLA_FFI_Api", "XLA_FFI_DeviceOrdinal_Get"),
)

ERROR = constants(
    "Error",
    SIZE=_word("XLA_FFI_Error_Create_Args", "struct_size"),
    EXTENSION=_word("XLA_FFI_Error_Create_Args", "extension_start"),
    MESSAGE=_word("XLA_FFI_Error_Create_Args", "message"),
    CODE=_word("XLA_FFI_Error_Create_Args", "errc"),
    BYTES=header.end("XLA_FFI_Error_Create_Args", "errc"),
    WORDS=-(-header.end("XLA_FFI_Error_Create_Args", "errc") // WORD_BYTES),
    INTERNAL=header.constant("XLA_FFI_Error_Code_INTERNAL"),
    INVALID_ARGUMENT=header.constant("XLA_FFI_Error_Code_INVALID_ARGUMENT"),
    NOT_FOUND=header.constant("XLA_FFI_Error_Code_NOT_FOUND"),
    RESOURCE_EXHAUSTED=header.constant("XLA_FFI_Error_Code_RESOURCE_EXHAUSTED"),
)

STREAM = constants(
    "Stream",
    SIZE=_word("XLA_FFI_Stream_Get_Args", "struct_size"),
    EXTENSION=_word("XLA_FFI_Stream_Get_Args", "extension_start"),
    CONTEXT=_word("XLA_FFI_Stream_Get_Args", "ctx"),
    STREAM=_word("XLA_FFI_Stream_Get_Args", "stream"),
    BYTES=header.end("XLA_FFI_Stream_Get_Args", "stream"),
)

ORDINAL = constants(
    "Ordinal",
    SIZE=_word("XLA_FFI_DeviceOrdinal_Get_Args", "struct_size"),
    EXTENSION=_word("XLA_FFI_DeviceOrdinal_Get_Args", "extension_start"),
    CONTEXT=_word("XLA_FFI_DeviceOrdinal_Get_Args", "ctx"),
    ORDINAL_BYTE=_byte("XLA_FFI_DeviceOrdinal_Get_Args", "device_ordinal"),
    BYTES=header.end("XLA_FFI_DeviceOrdinal_Get_Args", "device_ordinal"),
)
