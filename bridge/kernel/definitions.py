"""Keeps the kernels of this process and their wrappers, and finds the one that a program from another process calls."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

import msgspec
import numpy as np

from bridge.compat.jax import hold_weakly
from bridge.errors import BridgeError
from bridge.ffi.cuda.parameters import check_parameters
from bridge.ffi.kernel_call import Call
from bridge.ffi.native.addresses import Arrays
from bridge.ffi.plans.device import DevicePlan
from bridge.ffi.target import CPU, CUDA, Target
from bridge.kernel.arguments import Signature
from bridge.kernel.carried import Carried
from bridge.kernel.language import PROCESS_LOCAL, Compiled, Definition, NativeLanguage

DefinitionT = TypeVar("DefinitionT", bound=Definition)
R = TypeVar("R")


class _Description(msgspec.Struct, frozen=True):
    """The text of :meth:`KernelCall.describe`: names the machine code of one call in the same words in every process.

    Attributes:
        language: Name of the language.
        name: Name of the kernel.
        identity: Identifies the code, see :class:`~bridge.kernel.language.Compiled`.
        options: The options of the kernel, encoded.
        signature: The types of the call.
    """

    language: str
    name: str
    identity: str
    options: msgspec.Raw
    signature: Signature


@dataclass(frozen=True, kw_only=True)
class KernelCall(Call):
    """A call of a kernel of a native language.

    Attributes:
        language: The language of the kernel.
        definition: The kernel.
        options: Its options.
        signature: The types of the call.
        settings: The settings of the compiler when the call was traced. Calls under other settings are other calls. So
            JAX does not run a program that it compiled under earlier settings.
    """

    language: NativeLanguage[Any, Any] = field(repr=False)
    definition: Definition
    options: Any
    signature: Signature
    settings: Hashable

    @classmethod
    def of(
        cls,
        language: NativeLanguage[Any, Any],
        definition: Definition,
        options: Any,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        aliases: tuple[tuple[int, int], ...],
        name: str = "",
        **more: Any,
    ) -> KernelCall:
        """A call of a kernel that is made now.

        Args:
            language: The language of the kernel.
            definition: The kernel.
            options: Its options.
            inputs: Anything with shape and dtype, for each input.
            outputs: The same for each output, hidden ones included.
            aliases: Pairs of input and output that share a buffer. The kernel may write to these inputs.
            name: The kernel, for errors, if not as in the definition.
            **more: Other attributes of a :class:`~bridge.ffi.kernel_call.Call`.

        Raises:
            SignatureError: An extent is symbolic, but the kernel is compiled for extents.
            BridgeError: The language refuses the call.
        """
        name, writable = name or definition.name, {index for index, _ in aliases}
        signature = Signature.of(name, inputs, outputs, writable, with_extents=language.with_extents)
        language.check(definition, options, signature)
        return cls(
            name, tuple((spec.shape, spec.dtype) for spec in outputs), aliases, language=language,
            definition=definition, options=options, signature=signature, settings=language.settings(definition), **more,
        )  # fmt: skip

    @property
    def platforms(self) -> tuple[str, ...]:
        return tuple(self.language.row.platforms)

    @property
    def derivative_advice(self) -> str:
        return self.language.derivative_advice

    def check_export(self, platform: str) -> None:
        """Raises BridgeError if the kernel's code is only in this process, for a language that refuses to export it."""
        if self.language.local_kernels and self.compiled(platform).identity.startswith(PROCESS_LOCAL):
            raise BridgeError(f"{self.name} cannot be exported: {self.language.local_kernels}")

    def one_device(self, platform: str) -> str:
        """Why no program of several devices can make the call; empty if they can."""
        return self.compiled(platform).one_device

    def compiled(self, platform: str) -> Compiled:
        """Returns the compiled kernel, compiled now if it is new."""
        key = (self.language.name, self.options, self.signature, platform, self.settings)
        return self.definition.compiled(key, lambda: self._compile(platform))

    def with_hidden_outputs(self, inputs: Sequence[Any]) -> KernelCall:
        """The call with the temporary buffers of its kernel, and with the copies of inputs that the kernel gets.

        Kernels have these only if they are compiled when JAX traces the call, which is now.

        Args:
            inputs: Anything with shape and dtype, for each input.
        """
        if not self.language.compiles_when_traced:
            return self
        compiled = self.compiled(self.platforms[0])
        scratch = tuple(((size,), np.dtype(np.uint8)) for size in compiled.scratch)
        # An input that shares its buffer with an output is a copy, unless nothing else uses the input.
        copies = tuple((inputs[index].shape, inputs[index].dtype) for index in compiled.guarded)
        guards = tuple((each, len(self.outputs + scratch) + at) for at, each in enumerate(compiled.guarded))
        return replace(
            self,
            outputs=self.outputs + scratch + copies,
            aliases=self.aliases + guards,
            # A loop of calls reuses the temporaries of one call. The loop of native code would need one set for each.
            vmap_method="sequential" if scratch and self.vmap_method in (None, "parallel") else self.vmap_method,
            hidden=len(scratch + copies),
            guards=len(guards),
        )

    def describe(self, platform: str) -> tuple[Target, str]:
        """Returns the FFI target, and the description by which the target finds the kernel."""
        identity = self.compiled(platform).identity
        options = msgspec.Raw(msgspec.json.encode(self.options))
        description = _Description(self.language.name, self.definition.name, identity, options, self.signature)
        target = self.compiled(platform).target
        target = {"cpu": CPU, "cuda": CUDA}[platform] if target is None else target  # an empty target is false
        return target, msgspec.json.encode(description).decode()

    def entry(self, platform: str) -> int:
        """Returns the address of the plan of the kernel, which is loaded now if it is new."""
        target, description = self.describe(platform)
        return target.publish(description, lambda: self._load(platform))

    def carried(self, platform: str) -> str:
        compiled = self.compiled(platform)
        if compiled.identity.startswith(PROCESS_LOCAL):
            return ""
        kind, content = "", b"kernel-bridge puts no code of this kind into programs"
        try:
            if compiled.carry is not None:
                kind, content = compiled.carry()
        except BridgeError as error:
            content = str(error).encode()
        name, inputs, outputs = self._arrays(platform)
        return Carried(kind, content, name, inputs, outputs).text()

    def _arrays(self, platform: str) -> Arrays:
        """The arrays of the kernel's plan."""
        compiled, count = self.compiled(platform), len(self.signature.inputs)
        sizes = [(array.rank, array.item_bytes) for array in self.signature.arrays]
        scratch, copies = [(1, 1)] * len(compiled.scratch), [sizes[index] for index in compiled.guarded]
        return Arrays(self.name, sizes[:count], (*sizes[count:], *scratch, *copies))

    def _load(self, platform: str) -> tuple[int, Any]:
        plan = self.compiled(platform).load()
        if isinstance(plan, DevicePlan):
            check_parameters(plan.launches)
        return plan.keep(self._arrays(platform)), plan.alive

    def _compile(self, platform: str) -> Compiled:
        try:
            return self.language.compile(self.definition, self.options, self.signature, platform)
        except BridgeError:
            raise  # it says what is wrong with which kernel
        except Exception as error:
            error.add_note(f"(raised by the language {self.language.name!r}, which compiled {self.definition.name})")
            raise


hold_weakly(KernelCall)


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
        """
        with self._lock:
            self._languages[language.name] = language  # another object, where a user runs the file again
            known = self._definitions.get((language.name, content))
            if known is None:
                known = self._definitions[language.name, content] = make()
            return cast(DefinitionT, known)

    def __len__(self) -> int:
        return len(self._definitions)

    def resolve(self, platform: str, text: str, code: str) -> int:
        """The address of the plan of a call that another process described; it is compiled or loaded now if it is new.

        Args:
            platform: JAX's name of the platform.
            text: What :meth:`KernelCall.describe` returned.
            code: What :meth:`KernelCall.carried` returned. It is loaded unless this process has wrapped this kernel.

        Raises:
            BridgeError: This process has not wrapped this kernel, and the program does not hold its code.
        """
        try:
            description = msgspec.json.decode(text, type=_Description)
        except msgspec.MsgspecError as error:
            raise BridgeError(
                f"this program calls a kernel that it describes as {text!r}, which this version of kernel-bridge does "
                "not understand. Export the program again with this version."
            ) from error
        with self._lock:
            language = self._languages.get(description.language)
            known = [each for (of, _), each in self._definitions.items() if of == description.language]
        refusal: BridgeError | None = None
        for definition in known:
            if language is not None and definition.name == description.name:
                try:
                    call = _call_of(language, definition, description)
                    if call.compiled(platform).identity == description.identity:
                        return call.entry(platform)
                except BridgeError as error:  # another kernel of this name, which these types do not fit
                    refusal = error
        carried = Carried.of(code) if code else None
        if carried is not None and carried.kind:
            return {"cpu": CPU, "cuda": CUDA}[platform].publish(text, carried.load)
        why = f" The program does not hold its code: {carried.content.decode()}" if carried is not None else ""
        raise refusal or _undefined(language, description, why)


def _call_of(language: NativeLanguage[Any, Any], definition: Definition, description: _Description) -> KernelCall:
    options = msgspec.json.decode(description.options, type=language.options_type)
    signature, settings = description.signature, language.settings(definition)
    return KernelCall(
        definition.name, (), language=language, definition=definition, options=options, signature=signature,
        settings=settings,
    )  # fmt: skip


def _undefined(language: NativeLanguage[Any, Any] | None, description: _Description, why: str) -> BridgeError:
    if description.identity.startswith(PROCESS_LOCAL):
        advice = (
            "It depends on an object that has no content of its own, so no other process can rebuild it; pass such "
            "values as arrays or plain constants."
        )
    else:
        maker = "its wrapper" if language is None else language.row.function
        advice = (
            f"Call {maker} on the same kernel (same code, constants, options and versions, on the same kind of "
            "processor) before running this program."
        )
    what = f"{description.language} kernel {description.name!r}"
    return BridgeError(f"this program calls the {what}, which this process has not defined. {advice}{why}")


DEFINITIONS = Definitions()
"""All kernels of this process."""

PROGRAMS_KEPT = 64
"""Programs that a wrapper keeps where values are compiled in: one for each set of values and options."""

_lock = threading.RLock()
_existing: weakref.WeakValueDictionary[Hashable, Any] = weakref.WeakValueDictionary()
_latest: deque[Any] = deque(maxlen=32)
"""What lives although nobody holds it: a step function that wraps its kernels anew finds them compiled."""


def shared(key: Hashable, make: Callable[[], R]) -> R:
    """The wrapper of this key; made now if there is none.

    Args:
        key: Names by ``id`` what refers to code of the user, which may refer to the wrapper. The wrapper holds it.
        make: Makes the wrapper.
    """
    with _lock:
        wrapper: R | None = _existing.get(key)
        if wrapper is None:
            wrapper = _existing[key] = make()
        if wrapper not in _latest:
            _latest.append(wrapper)
        return wrapper


def release() -> int:
    """Drops wrappers and kernels that nothing uses any more; returns the number of kernels dropped.

    Without it, the latest 32 wrappers live on. The device memory that callables keep for their temporaries is freed,
    too.

    A kernel is in use while the caller holds it or a wrapper of it, or JAX holds a trace that calls it
    (``jax.clear_caches()`` makes JAX let go). Loaded machine code stays for the life of the process, so every program
    that calls it can run at any time, also one that runs now or comes from ``jax.export``.
    """
    before = len(DEFINITIONS)
    _latest.clear()
    gc.collect()
    if memory := sys.modules.get("bridge.languages.numba_cuda.device_memory"):
        memory.trim()
    return before - len(DEFINITIONS)
