"""Reads the layout of XLA's FFI structs from the C header that the installed jaxlib ships.

Native handlers address a struct as an array of 8-byte words, so most offsets here are word indices. Fields of 32 bits
have byte offsets, and names that end in ``_BYTE``. All offsets come from the header. If it cannot be read, or lacks a
field that the handlers need, importing this module raises :class:`~bridge.errors.AbiError`.
"""

from __future__ import annotations

import re
from collections import namedtuple
from pathlib import Path
from typing import Any

import cffi
import jax.ffi
from jaxlib.version import __version__ as jaxlib_version

from bridge.errors import AbiError

WORD_BYTES = 8


class Header:
    """The parsed text of ``xla/ffi/api/c_api.h``.

    Raises:
        AbiError: The text is not the C declarations of a known major version of XLA's FFI.
    """

    def __init__(self, text: str):
        self.types = cffi.FFI()
        try:
            self.types.cdef(_declarations(text))
        except (cffi.CDefError, cffi.FFIError) as error:
            raise _unknown(f"c_api.h does not parse: {error}") from error
        self._constants = self.types.dlopen(None)
        self.major, self.minor = (self._macro(text, f"XLA_FFI_API_{part}") for part in ("MAJOR", "MINOR"))
        if self.major != 0:
            raise _unknown(f"its version is {self.major}.{self.minor}, expected 0.x")

    @staticmethod
    def _macro(text: str, name: str) -> int:
        found = re.search(rf"#define\s+{name}\s+(\d+)", text)
        if found is None:
            raise _unknown(f"c_api.h does not define {name}")
        return int(found[1])

    def byte(self, struct: str, *path: str) -> int:
        """Byte offset of a field; a path reaches into structs held by value."""
        try:
            return int(self.types.offsetof(struct, *path))
        except (cffi.CDefError, cffi.FFIError, KeyError, TypeError) as error:
            raise _unknown(f"c_api.h has no field {struct}.{'.'.join(path)}") from error

    def word(self, struct: str, *path: str) -> int:
        """Word index of a field; a path reaches into structs held by value."""
        byte = self.byte(struct, *path)
        if byte % WORD_BYTES:
            raise _unknown(f"{struct}.{'.'.join(path)} lies at byte {byte}, not on a word")
        return byte // WORD_BYTES

    def end(self, struct: str, field: str) -> int:
        """Bytes from the start of a struct to the end of one field, as XLA's ``*_STRUCT_SIZE`` constants count."""
        fields = dict(self.types.typeof(struct).fields)
        return self.byte(struct, field) + int(self.types.sizeof(fields[field].type))

    def names(self, enumeration: str) -> dict[int, str]:
        """The enumerators of an enumeration by their values."""
        try:
            return dict(self.types.typeof(enumeration).elements)
        except (cffi.CDefError, cffi.FFIError, AttributeError) as error:
            raise _unknown(f"c_api.h has no enumeration {enumeration}") from error

    def constant(self, name: str) -> int:
        """Value of an enumerator."""
        value = getattr(self._constants, name, None)
        if value is None:
            raise _unknown(f"c_api.h has no constant {name}")
        return int(value)


def _declarations(text: str) -> str:
    """Reduces the header to declarations that cffi parses: no comments, directives or macro calls."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)
    text = re.sub(r"^\s*#(?:[^\n]*\\\n)*[^\n]*", "", text, flags=re.MULTILINE)
    text = re.sub(r"XLA_FFI_DEFINE_STRUCT_TRAITS\((\w+),\s*\w+\);", r"typedef struct \1 \1;", text)
    text = re.sub(r"_XLA_FFI_API_STRUCT_FIELD\((\w+)\);", r"void* \1;", text)
    text = re.sub(r'extern "C" \{(.*)\}', r"\1", text, flags=re.DOTALL)
    return _needed(re.sub(r"\b(\d+)u\b", r"\1", text))


_NEEDED = (
    "XLA_FFI_Api", "XLA_FFI_Array", "XLA_FFI_AttrType", "XLA_FFI_Buffer", "XLA_FFI_ByteSpan", "XLA_FFI_CallFrame",
    "XLA_FFI_DataType", "XLA_FFI_DeviceOrdinal_Get_Args", "XLA_FFI_Error_Code", "XLA_FFI_Error_Create",
    "XLA_FFI_Error_Create_Args", "XLA_FFI_ExecutionStage", "XLA_FFI_Extension_Type", "XLA_FFI_Handler_TraitsBits",
    "XLA_FFI_Metadata_Extension", "XLA_FFI_Scalar", "XLA_FFI_Stream_Get_Args",
)  # fmt: skip
"""The types that the bridge reads fields of, or casts to."""

_DECLARATION = re.compile(r"(?:[^;{}]|\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\})+;")
_TYPE = re.compile(r"\b(\w+)(?=[\s*]+\w)")


def _needed(declarations: str) -> str:
    """The declarations of the needed types and of the types that these name. To parse the others takes much longer."""
    parts = _DECLARATION.findall(declarations)
    if "".join(parts).split() != declarations.split():
        return declarations  # cffi says what is wrong with them
    homes: dict[str, list[int]] = {}
    for index, part in enumerate(parts):
        for name in _declared(part):
            homes.setdefault(name, []).append(index)
    kept: set[int] = set()
    pending = list(_NEEDED)
    while pending:
        for index in homes.pop(pending.pop(), ()):
            if index not in kept:
                kept.add(index)
                pending += _TYPE.findall(parts[index])
    return "".join(parts[index] for index in sorted(kept))


def _declared(declaration: str) -> list[str]:
    """The names that a declaration gives to types: before its body and after it, or before its parameters."""
    head, brace, rest = declaration.partition("{")
    named = f"{head};{rest.rpartition('}')[2]}" if brace else head
    return re.findall(r"(\w+)\s*[;(]", named)


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


def _constants(name: str, **values: int) -> Any:
    """A named tuple, which Numba compiles to constants."""
    return namedtuple(name, values)(**values)


header = Header(read_header())
_word, _byte = header.word, header.byte

VERSION = _constants("Version", MAJOR=header.major, MINOR=header.minor)

NEWEST = (0, 5)
"""The newest version that the bridge was tested with; :mod:`bridge.ffi.newer_ffi` tries a newer one."""

FRAME = _constants(
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

BUFFER = _constants(
    "Buffer",
    DATA=_word("XLA_FFI_Buffer", "data"),
    RANK=_word("XLA_FFI_Buffer", "rank"),
    DIMS=_word("XLA_FFI_Buffer", "dims"),
)

ATTRIBUTE = _constants(
    "Attribute",
    ARRAY_TYPE=header.constant("XLA_FFI_AttrType_ARRAY"),
    SCALAR_TYPE=header.constant("XLA_FFI_AttrType_SCALAR"),
    SCALAR_VALUE=_word("XLA_FFI_Scalar", "value"),
)

ARRAY = _constants(
    "Array",
    DTYPE_BYTE=_byte("XLA_FFI_Array", "dtype"),
    SIZE=_word("XLA_FFI_Array", "size"),
    DATA=_word("XLA_FFI_Array", "data"),
    INT32=header.constant("XLA_FFI_DataType_S32"),
    INT64=header.constant("XLA_FFI_DataType_S64"),
)

EXTENSION = _constants(
    "Extension",
    TYPE_BYTE=_byte("XLA_FFI_Metadata_Extension", "extension_base", "type"),
    METADATA_TYPE=header.constant("XLA_FFI_Extension_Metadata"),
    METADATA=_word("XLA_FFI_Metadata_Extension", "metadata"),
)

METADATA = _constants(
    "Metadata",
    MAJOR_BYTE=_byte("XLA_FFI_Metadata", "api_version", "major_version"),
    MINOR_BYTE=_byte("XLA_FFI_Metadata", "api_version", "minor_version"),
    TRAITS_BYTE=_byte("XLA_FFI_Metadata", "traits"),
    COMMAND_BUFFER=header.constant("XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE"),
)

API = _constants(
    "Api",
    ERROR_CREATE=_word("XLA_FFI_Api", "XLA_FFI_Error_Create"),
    STREAM_GET=_word("XLA_FFI_Api", "XLA_FFI_Stream_Get"),
    DEVICE_ORDINAL_GET=_word("XLA_FFI_Api", "XLA_FFI_DeviceOrdinal_Get"),
)

ERROR = _constants(
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
)

STREAM = _constants(
    "Stream",
    SIZE=_word("XLA_FFI_Stream_Get_Args", "struct_size"),
    EXTENSION=_word("XLA_FFI_Stream_Get_Args", "extension_start"),
    CONTEXT=_word("XLA_FFI_Stream_Get_Args", "ctx"),
    STREAM=_word("XLA_FFI_Stream_Get_Args", "stream"),
    BYTES=header.end("XLA_FFI_Stream_Get_Args", "stream"),
)

ORDINAL = _constants(
    "Ordinal",
    SIZE=_word("XLA_FFI_DeviceOrdinal_Get_Args", "struct_size"),
    EXTENSION=_word("XLA_FFI_DeviceOrdinal_Get_Args", "extension_start"),
    CONTEXT=_word("XLA_FFI_DeviceOrdinal_Get_Args", "ctx"),
    ORDINAL_BYTE=_byte("XLA_FFI_DeviceOrdinal_Get_Args", "device_ordinal"),
    BYTES=header.end("XLA_FFI_DeviceOrdinal_Get_Args", "device_ordinal"),
)
