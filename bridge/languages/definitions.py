"""Keeps the kernels that this process has wrapped, and finds the one that a program from another process calls."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Hashable
from typing import Any, TypeVar, cast

import msgspec

from bridge.errors import BridgeError, KernelTypeError
from bridge.ffi.table_entry import Entry
from bridge.languages.native_code import Description, NativeCode
from bridge.languages.native_language import Definition, NativeLanguage
from bridge.source.content import PROCESS_LOCAL

DefinitionT = TypeVar("DefinitionT", bound=Definition)


class Definitions:
    """The kernels of all languages, for as long as something else refers to them. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._languages: dict[str, NativeLanguage[Any, Any]] = {}
        self._definitions: weakref.WeakValueDictionary[tuple[str, Hashable], Definition] = weakref.WeakValueDictionary()

    def define(
        self, language: NativeLanguage[DefinitionT, Any], content: Hashable, make: Callable[[], DefinitionT]
    ) -> DefinitionT:
        """The definition of this content; made now if it is new.

        Args:
            language: The language of the kernel.
            content: The kernel (its ``id``, if the definition keeps it alive), or its whole source.
            make: Makes the definition.

        Raises:
            KernelTypeError: Another language has the name of this one.
        """
        with self._lock:
            other = self._languages.get(language.name, language)
            if _home(other) != _home(language):
                raise KernelTypeError(
                    f"the name of the kernel language {language.name!r} of {_home(language)[0]} is taken by another "
                    f"one, of {_home(other)[0]}. Rename it: programs find their kernels by this name."
                )
            self._languages[language.name] = language  # another object, where a user runs the file again
            known = self._definitions.get((language.name, content))
            if known is None:
                known = self._definitions[language.name, content] = make()
            return cast(DefinitionT, known)

    def __len__(self) -> int:
        return len(self._definitions)

    def resolve(self, platform: str, text: str) -> Entry:
        """The entry of a call that another process described, compiled now if it is new.

        Raises:
            BridgeError: This process has not wrapped this kernel.
        """
        try:
            description = Description.decode(text)
        except msgspec.MsgspecError as error:
            raise _not_understood(text) from error
        with self._lock:
            language = self._languages.get(description.language)
            known = [each for (of, _), each in self._definitions.items() if of == description.language]
        if language is None:
            raise BridgeError(
                f"this program calls the {description.language} kernel {description.name!r}, but nothing in this "
                f"process provides {description.language} kernels. Define the kernel with the same wrapper as in the "
                "process that exported it."
            )
        try:
            options = msgspec.json.decode(description.options, type=language.options_type)
        except msgspec.MsgspecError as error:
            raise _not_understood(text) from error
        refusal: BridgeError | None = None
        for definition in known:
            if definition.name == description.name:
                code = NativeCode(language, definition, options, description.signature)
                try:
                    identity = code.compiled(platform).identity
                except BridgeError as error:  # another kernel of this name, which these types do not fit
                    refusal = error
                    continue
                if identity == description.identity:
                    return code.entry(platform)
        raise refusal or _undefined(language, description)


def _home(language: NativeLanguage[Any, Any]) -> tuple[str, str]:
    return type(language).__module__, type(language).__qualname__


def _not_understood(text: str) -> BridgeError:
    return BridgeError(
        f"this program calls a kernel that it describes as {text!r}, which this version of kernel-bridge does not "
        "understand. Export the program again with this version."
    )


def _undefined(language: NativeLanguage[Any, Any], description: Description) -> BridgeError:
    advice = (
        "It depends on an object that has no content of its own, so no other process can rebuild it; pass such values "
        "as arrays or plain constants."
        if description.identity.startswith(PROCESS_LOCAL)
        else f"Call {language.wrapper} on the same kernel (same code, constants and options) before running this "
        "program."
    )
    return BridgeError(
        f"this program calls the {language.kernel_kind} {description.name!r}, which this process has not defined. "
        f"{advice}"
    )


DEFINITIONS = Definitions()
"""All kernels of this process."""
