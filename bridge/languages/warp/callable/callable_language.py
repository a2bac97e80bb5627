"""Describes functions that launch Warp kernels as a native language: each is recorded, or called in Python."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import warp as wp

from bridge.errors import RecordingError
from bridge.ffi.kernel_call import available
from bridge.ffi.target import CPU, CUDA_HOST, CUDA_IN_TURN
from bridge.kernel.arguments import Signature
from bridge.kernel.language import Compiled, Definition, NativeLanguage, Plan
from bridge.languages.warp.callable.plans import plan_device, plan_host, plan_python
from bridge.languages.warp.callable.recorder import ADVICE
from bridge.languages.warp.callable.recording import WarpRecording, record
from bridge.languages.warp.dtypes import element_type
from bridge.languages.warp.inputs import check_not_written, only_read
from bridge.languages.warp.packing import value_of
from bridge.languages.warp.parameters import Role, WarpParameter
from bridge.languages.warp.settings import configured
from bridge.languages.warp.wrapper_options import check_homes
from bridge.table import LANGUAGES


@dataclass(frozen=True, eq=False)
class LikeKernel:
    """Has the name, the function and the annotated parameters of a callable where a kernel has them."""

    key: str
    func: types.FunctionType
    adj: Any


@dataclass(frozen=True, eq=False)
class WarpFunction(Definition):
    """A Python function that launches kernels.

    Attributes:
        like_kernel: Stands for a kernel with its parameters.
        parameters: Its parameters.
        refers: What it takes from its globals and its closure.
        recordings: What it did, by the values and types of a call and Warp's settings, with the inputs to copy.
        outside: The keys of the recordings that use arrays from outside.
    """

    like_kernel: Any = field(repr=False)
    parameters: tuple[WarpParameter, ...] = field(repr=False)
    refers: tuple[Any, ...] = field(repr=False)
    recordings: dict[Any, list[tuple[WarpRecording, tuple[int, ...]]]] = field(
        default_factory=dict, init=False, repr=False
    )
    outside: set[Any] = field(default_factory=set, init=False, repr=False)

    @property
    def results(self) -> list[WarpParameter]:
        """The array parameters that are returned, in order."""
        in_out = [p for p in self.parameters if p.role is Role.IN_OUT]
        return in_out + [p for p in self.parameters if p.role is Role.OUTPUT]

    @property
    def inputs(self) -> list[WarpParameter]:
        """The array parameters that are passed."""
        return [p for p in self.parameters if p.is_array and p.role is not Role.OUTPUT]

    @property
    def buffers(self) -> list[int]:
        """The buffer of each array parameter in a call. An in/out argument has the buffer of its result."""
        numbers = {p.name: index for index, p in enumerate((*self.inputs, *self.results))}
        return [numbers[p.name] for p in self.parameters if p.is_array]

    def arguments(
        self, values: Sequence[bytes], signature: Signature, address: Callable[[int, Any], int], device: Any
    ) -> list[Any]:
        """What the function is called with.

        Args:
            values: The memory of each parameter that is no array.
            signature: The types of the call.
            address: Gives the address of an array from the number of its buffer, and its shape and dtype.
            device: Warp's device that has the memory.
        """
        result, left, buffers = [], iter(values), iter(self.buffers)
        for p, declared in zip(self.parameters, self.like_kernel.adj.args, strict=True):
            if not p.is_array:
                result.append(value_of(next(left), str(precise(p).dtype), p.inner or (), declared.type))
                continue
            array = signature.arrays[buffer := next(buffers)]
            shape, at = array.extents, address(buffer, array)
            is_open = p.dtype is None or p.inner is None
            element = (
                element_type(array.dtype, tuple(shape[p.ndim :])) if is_open else declared.type.dtype
            )  # a quat, say
            result.append(wp.array(ptr=at, dtype=element, shape=tuple(shape[: p.ndim]), device=device))
        return result

    def latest(self, options: StaticValues, signature: Signature) -> StaticValues:
        """The options with the number of the recording of what the function does now.

        It runs again if it used arrays from outside when it ran before: they may have been replaced.
        """
        with self._lock:
            known = self.recordings.setdefault(key := (options.values, signature, configured()), [])
            if known and key not in self.outside:
                return options
            made = self._record(options, signature)
            if None in made[0].uses:
                self.outside.add(key)
            same = (index for index, (each, _) in enumerate(known) if each.operations == made[0].operations)
            if (number := next(same, len(known))) == len(known):
                known.append(made)
            return msgspec.structs.replace(options, recording=number)

    def recorded(self, options: StaticValues, signature: Signature) -> tuple[WarpRecording, tuple[int, ...]]:
        """What the function does, and the inputs that it gets copies of."""
        key = options.values, signature, configured()
        if not self.recordings.get(key):  # a program of another process calls it
            self.latest(options, signature)
        return self.recordings[key][options.recording]

    def _record(self, options: StaticValues, signature: Signature) -> tuple[WarpRecording, tuple[int, ...]]:
        def arguments(reserve: Callable[[Any], int]) -> list[Any]:
            return self.arguments(options.values, signature, lambda _, array: reserve(array), "cpu")

        made = record(self.name, self.function, arguments)
        uses = {at: made.uses.get(index, frozenset[str]()) for index, at in enumerate(self.buffers)}
        by_name = {p.name: uses[at] for at, p in enumerate((*self.inputs, *self.results)) if at in uses}
        check_not_written(self.name, self.parameters, by_name)
        for at, p in enumerate(self.results, len(self.inputs)):
            if p.role is Role.OUTPUT and only_read(uses[at]) and 0 not in signature.arrays[at].extents:
                raise RecordingError(
                    f"{self.name} cannot be recorded: it does not write to its output {p.name!r}{ADVICE}"
                )
        guarded = (at for at, p in enumerate(self.inputs) if p.role is Role.INPUT and not only_read(uses[at]))
        return made, tuple(guarded)


class StaticValues(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a function is called.

    Attributes:
        values: The memory of each parameter that is no array.
        python_call: Call it in Python each time.
        recording: Number of the recording, of those for equal values and types. There are several if the function used
            other arrays from outside when it ran again.
    """

    values: tuple[bytes, ...]
    python_call: bool
    recording: int = 0


class _Callables(NativeLanguage[WarpFunction, StaticValues]):
    def compile(self, definition: WarpFunction, options: StaticValues, signature: Signature, platform: str) -> Compiled:
        arrays, name = len(signature.arrays), definition.name
        if options.python_call:
            guarded, made = tuple(index for index, p in enumerate(definition.inputs) if p.role is Role.INPUT), None
        else:
            made, guarded = definition.recorded(options, signature)
        temporaries, homes = (made.temporaries, made.homes) if made else ((), ())
        count = arrays + len(temporaries) + len(guarded)
        on_one = "it writes to arrays that were not passed, or that lie on one of them. Pass them as arguments."
        one_device = on_one if made and (made.writes_outside or (homes and platform == "cuda")) else ""
        operations = made.on(platform) if made else None
        buffers = [*definition.buffers, *range(arrays, arrays + len(temporaries))]

        def run(device: Any, addresses: Sequence[int]) -> None:
            definition.function(*definition.arguments(options.values, signature, lambda at, _: addresses[at], device))

        def plan() -> Plan:
            check_homes(name, options.values, homes, platform)
            if operations is None:
                return plan_python(name, run, platform, count, homes)
            build = plan_host if platform == "cpu" else plan_device
            return build(name, operations, buffers, count, (definition, made))

        if made is None or operations is None:
            target = CPU if platform == "cpu" else CUDA_HOST
            return Compiled(None, plan, temporaries, guarded, target, one_device)
        if available("cuda") == (platform == "cuda"):
            plan = functools.cache(plan)
            plan()  # now, because what the code of the kernels refers to may change
        in_turn = CUDA_IN_TURN if platform == "cuda" and None in made.uses else None
        return Compiled(made.content(operations, buffers), plan, temporaries, guarded, in_turn, one_device)


LANGUAGE = _Callables(
    LANGUAGES["warp_callable"],
    kernel_kind="Warp callable",
    compiler="Warp",
    options_type=StaticValues,
    local_kernels="it is called in Python, or refers to objects of this process, such as a mesh, or an array that was "
    "not passed. Pass arrays as arguments.",
)


def precise(p: WarpParameter) -> WarpParameter:
    """The parameter in the type in which the function gets its value: a float is one of Python, which has 64 bits."""
    is_float = str(p.dtype) in ("float16", "bfloat16", "float32")
    return replace(p, dtype="float64") if is_float and not p.inner and not p.is_array else p
