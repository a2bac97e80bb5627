"""Calls a kernel of any native language for the types of one call, and describes it to other processes."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from bridge.errors import BridgeError
from bridge.ffi.table_entry import Entry
from bridge.ffi.target import Target
from bridge.languages.compiled_kernel import Compiled
from bridge.languages.native_language import Definition, NativeLanguage
from bridge.signature.array_types import Signature


class Description(msgspec.Struct, frozen=True):
    """Names the machine code of one call, in the same words in every process.

    Attributes:
        language: Name of the language.
        name: Name of the kernel.
        identity: Identifies the code, see :class:`~bridge.languages.compiled_kernel.Compiled`.
        options: The options of the kernel, encoded.
        signature: The types of the call.
    """

    language: str
    name: str
    identity: str
    options: msgspec.Raw
    signature: Signature

    def encode(self) -> str:
        """The description as JSON."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def decode(cls, text: str) -> Description:
        """The inverse of :meth:`encode`.

        Raises:
            msgspec.MsgspecError: The text is no description.
        """
        return msgspec.json.decode(text, type=cls)


@dataclass(frozen=True)
class NativeCode:
    """A kernel for the types of one call: a :class:`bridge.ffi.kernel_call.Code`.

    Attributes:
        language: The language of the kernel.
        definition: The kernel.
        options: Its options.
        signature: The types of the call.
        settings: The settings of the compiler when this was made. Calls under other settings are other calls. So JAX
            does not run a program that it compiled under earlier settings.
    """

    language: NativeLanguage[Any, Any]
    definition: Definition
    options: Any
    signature: Signature
    settings: Hashable = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "settings", self.language.settings(self.definition))

    @property
    def platforms(self) -> tuple[str, ...]:
        return tuple(self.language.platforms)

    @property
    def scratch(self) -> tuple[int, ...]:
        """Bytes of each temporary buffer. Only kernels that are compiled when traced have any: JAX needs them then."""
        if not self.language.compiles_when_traced:
            return ()
        (platform,) = self.platforms
        return self.compiled(platform).scratch

    @property
    def guarded(self) -> tuple[int, ...]:
        """Indices of the inputs that the kernel gets copies of. JAX needs them when it traces, as :attr:`scratch`."""
        if not self.language.compiles_when_traced:
            return ()
        (platform,) = self.platforms
        return self.compiled(platform).guarded

    @property
    def derivative_advice(self) -> str:
        return self.language.derivative_advice(self.definition, self.options)

    def compiled(self, platform: str) -> Compiled:
        """Returns the compiled kernel, compiled now if it is new."""
        key = (self.language.name, self.options, self.signature, platform, self.language.settings(self.definition))
        return self.definition.compiled(key, lambda: self._compile(platform))

    def describe(self, platform: str) -> tuple[Target, str]:
        """Returns the FFI target, and the description of the kernel that the target finds its entry by."""
        identity = self.compiled(platform).identity
        options = msgspec.Raw(msgspec.json.encode(self.options))
        description = Description(self.language.name, self.definition.name, identity, options, self.signature)
        return self.language.target(self.options, platform), description.encode()

    def in_place_pairs(self, platform: str) -> frozenset[tuple[int, int]]:
        """Returns the pairs of input and output that may share memory, see :class:`Compiled`."""
        return self.compiled(platform).in_place

    def entry(self, platform: str) -> Entry:
        """Returns the loaded kernel, loaded now if it is new."""
        target, description = self.describe(platform)
        return target.publish(description, self.compiled(platform).load)

    def _compile(self, platform: str) -> Compiled:
        try:
            return self.language.compile(self.definition, self.options, self.signature, platform)
        except BridgeError:
            raise  # it says what is wrong with which kernel
        except Exception as error:
            error.add_note(f"(raised by the language {self.language.name!r}, which compiled {self.definition.name})")
            raise
