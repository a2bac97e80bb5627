"""Reads the layout of XLA's FFI structs from the C header that the installed jaxlib ships.

Native handlers address a struct as an array of 8-byte words, so most offsets here are word indices. Fields of 32 bits
have byte offsets, and names that end in ``_BYTE``. All offsets come from the header. If it cannot be read, or lacks a
field that every handler needs, importing this module raises :class:`~bridge.errors.AbiError`.
"""

from __future__ import annotations

import ctypes
import re
from collections import namedtuple
from pathlib import Path
from typing import Any

import jax.ffi
from jaxlib.version import __version__ as jaxlib_version

from bridge.errors import AbiError

WORD_BYTES = 8

_TYPES: dict[str, Any] = {
    "int": ctypes.c_int, "int32_t": ctypes.c_int32, "uint32_t": ctypes.c_uint32, "int64_t": ctypes.c_int64,
    "uint64_t": ctypes.c_uint64, "size_t": ctypes.c_size_t,
}  # fmt: skip
_FIELD = re.compile(r"(?:const |struct )?(?P<type>\w+)(?P<stars>[ *]*)\b(?P<name>\w+)")
_FUNCTION = re.compile(r"\w+ \(\*(\w+)\)\([^()]*\)|_XLA_FFI_API_STRUCT_FIELD\((\w+)\)")


class Header:
    """The text of ``xla/ffi/api/c_api.h``, whose structs are laid out when they are first asked for.

    It knows the few forms of declarations that the header has, and refuses a struct that has another one.

    Raises:
        AbiError: The text has no version, or an unknown one. The methods raise it for what they do not find.
    """

    def __init__(self, text: str):
        self._text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)
        self._structs: dict[str, type[ctypes.Structure]] = {}
        self.major, self.minor = (
            int(self._find(rf"#define XLA_FFI_API_{part}\s+(\d+)", f"no XLA_FFI_API_{part}")[1])
            for part in ("MAJOR", "MINOR")
        )
        if self.major != 0:
            raise _unknown(f"c_api.h has the version {self.major}.{self.minor}, expected 0.x")

    def _find(self, pattern: str, otherwise: str) -> re.Match[str]:
        found = re.search(pattern, self._text)
        if found is None:
            raise _unknown(f"c_api.h has {otherwise}")
        return found

    def struct(self, name: str) -> type[ctypes.Structure]:
        """A struct, in which every pointer has the type ``c_void_p``."""
        if name not in self._structs:
            body = self._find(rf"struct {name} \{{([^{{}}]*)\}}\s*\w*;", f"no struct {name} that can be read")[1]
            fields = [self._declared(name, " ".join(each.split())) for each in body.split(";")[:-1]]
            self._structs[name] = type(name, (ctypes.Structure,), {"_fields_": fields})
        return self._structs[name]

    def _declared(self, struct: str, field: str) -> tuple[str, Any]:
        if function := _FUNCTION.fullmatch(field):
            return function[1] or function[2], ctypes.c_void_p
        found = _FIELD.fullmatch(field)
        if found is None:
            raise _unknown(f"c_api.h has the field {field!r} of {struct}")
        return found["name"], ctypes.c_void_p if "*" in found["stars"] else self._type(found["type"])

    def _type(self, name: str) -> Any:
        if name in _TYPES:
            return _TYPES[name]
        if re.search(rf"typedef enum \{{[^{{}}]*\}} {name};", self._text):
            return ctypes.c_int
        alias = re.search(rf"typedef (\w+) {name};", self._text)
        return self._type(alias[1]) if alias else self.struct(name)

    def _field(self, name: str, path: tuple[str, ...]) -> tuple[int, int]:
        """Byte offset and size of a field; a path reaches into structs held by value."""
        offset, size, struct = 0, 0, self.struct(name)
        for step in path:
            types: dict[str, Any] = dict(getattr(struct, "_fields_", ()))
            if step not in types:
                raise _unknown(f"c_api.h has no field {name}.{'.'.join(path)}")
            found = getattr(struct, step)
            offset, size, struct = offset + found.offset, found.size, types[step]
        return offset, size

    def byte(self, struct: str, *path: str) -> int:
        """Byte offset of a field; a path reaches into structs held by value."""
        return self._field(struct, path)[0]

    def word(self, struct: str, *path: str) -> int:
        """Word index of a field; a path reaches into structs held by value."""
        byte = self.byte(struct, *path)
        if byte % WORD_BYTES:
            raise _unknown(f"c_api.h has {struct}.{'.'.join(path)} at byte {byte}, not on a word")
        return byte // WORD_BYTES

    def end(self, struct: str, field: str) -> int:
        """Bytes from the start of a struct to the end of one field, as XLA's ``*_STRUCT_SIZE`` constants count."""
        return sum(self._field(struct, (field,)))

    def constant(self, name: str) -> int:
        """Value of an enumerator."""
        found = self._find(rf"\b{name} = (\d+)(?:u << (\d+))?\s*[,}}]", f"no number {name}")
        return int(found[1]) << int(found[2] or 0)

    def names(self, prefix: str) -> dict[int, str]:
        """The enumerators whose names begin so, by their values."""
        return {self.constant(name): name for name in re.findall(rf"\b({prefix}_\w+) = ", self._text)}


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


def _offsets(struct: str, **fields: str | int) -> Any:
    """Constants: word indices of fields, or byte offsets where their names end in ``_BYTE``; numbers as they are."""
    return constants(struct, **{name: _offset(struct, name, field) for name, field in fields.items()})


def _offset(struct: str, name: str, field: str | int) -> int:
    if isinstance(field, int):
        return field
    return (header.byte if name.endswith("_BYTE") else header.word)(struct, *field.split("."))


VERSION = constants("Version", MAJOR=header.major, MINOR=header.minor)

FRAME = _offsets(
    "XLA_FFI_CallFrame",
    SIZE="struct_size", EXTENSION="extension_start", API="api", CONTEXT="ctx", STAGE_BYTE="stage",
    ARG_COUNT="args.size", ARGS="args.args", RET_COUNT="rets.size", RETS="rets.rets",
    ATTR_COUNT="attrs.size", ATTR_TYPES="attrs.types", ATTRS="attrs.attrs",
    LEAST_SIZE=header.end("XLA_FFI_CallFrame", "attrs"), EXECUTE=header.constant("XLA_FFI_ExecutionStage_EXECUTE"),
)  # fmt: skip

BUFFER = _offsets("XLA_FFI_Buffer", DATA="data", RANK="rank", DIMS="dims")

ATTRIBUTE = _offsets(
    "XLA_FFI_Scalar",
    SCALAR_VALUE="value",
    ARRAY_TYPE=header.constant("XLA_FFI_AttrType_ARRAY"),
    SCALAR_TYPE=header.constant("XLA_FFI_AttrType_SCALAR"),
)

ARRAY = _offsets("XLA_FFI_Array", DATA="data")

EXTENSION = _offsets(
    "XLA_FFI_Metadata_Extension",
    TYPE_BYTE="extension_base.type",
    METADATA="metadata",
    METADATA_TYPE=header.constant("XLA_FFI_Extension_Metadata"),
)

METADATA = _offsets(
    "XLA_FFI_Metadata",
    MAJOR_BYTE="api_version.major_version", MINOR_BYTE="api_version.minor_version", TRAITS_BYTE="traits",
    COMMAND_BUFFER=header.constant("XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE"),
)  # fmt: skip

API = _offsets(
    "XLA_FFI_Api",
    ERROR_CREATE="XLA_FFI_Error_Create",
    STREAM_GET="XLA_FFI_Stream_Get",
    DEVICE_ORDINAL_GET="XLA_FFI_DeviceOrdinal_Get",
)

ERROR = _offsets(
    "XLA_FFI_Error_Create_Args",
    SIZE="struct_size", EXTENSION="extension_start", MESSAGE="message", CODE="errc",
    BYTES=header.end("XLA_FFI_Error_Create_Args", "errc"),
    INTERNAL=header.constant("XLA_FFI_Error_Code_INTERNAL"),
    INVALID_ARGUMENT=header.constant("XLA_FFI_Error_Code_INVALID_ARGUMENT"),
    NOT_FOUND=header.constant("XLA_FFI_Error_Code_NOT_FOUND"),
    RESOURCE_EXHAUSTED=header.constant("XLA_FFI_Error_Code_RESOURCE_EXHAUSTED"),
)  # fmt: skip

STREAM = _offsets(
    "XLA_FFI_Stream_Get_Args",
    SIZE="struct_size", EXTENSION="extension_start", CONTEXT="ctx", STREAM="stream",
    BYTES=header.end("XLA_FFI_Stream_Get_Args", "stream"),
)  # fmt: skip

ORDINAL = _offsets(
    "XLA_FFI_DeviceOrdinal_Get_Args",
    SIZE="struct_size", EXTENSION="extension_start", CONTEXT="ctx", ORDINAL_BYTE="device_ordinal",
    BYTES=header.end("XLA_FFI_DeviceOrdinal_Get_Args", "device_ordinal"),
)  # fmt: skip
