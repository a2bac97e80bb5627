"""Describes functions that launch Warp kernels as a native language: each is recorded, or called in Python.

A function that is recorded runs once, with arrays of the CPU that no kernel ever sees: each launch is noted instead of
made, and becomes a block of words, in which native code fills in the addresses of a call. Where Warp zeroes, fills or
copies, a kernel is launched that does so. Memory from outside of the function stays where it is. Any other call of
Warp's library is refused by its name. Warp keeps its own record at the same time, of the operations that reach its
library: if one does, it went past the notes, and the recording is refused too. Nothing is compiled meanwhile. So the
recording needs no GPU, and holds what CUDA has to know besides: the threads of each block.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import warp as wp

from bridge.compat.warp import codegen_lock, noting
from bridge.errors import KernelCompileError, PlatformError
from bridge.ffi.kernel_call import available
from bridge.ffi.plans.host import HostPlan, python_plan
from bridge.ffi.target import CPU, CUDA_HOST, CUDA_IN_TURN
from bridge.kernel.arguments import Signature
from bridge.kernel.language import Compiled, Definition, NativeLanguage, Plan
from bridge.languages.warp.callable.graphs import WarpGraphs, can_capture
from bridge.languages.warp.callable.recorder import ADVICE, CONSTANT, WarpRecorder
from bridge.languages.warp.cpu_plan import cpu_device, repeat_on_host
from bridge.languages.warp.cuda_plan import repeat_on_device
from bridge.languages.warp.generated import Generated, generated_everywhere, takes_handle
from bridge.languages.warp.inputs import Uses, only_read
from bridge.languages.warp.operations import RecordedOperation
from bridge.languages.warp.parameters import Role, WarpParameter, element_type, inputs_of, value_of
from bridge.languages.warp.planned import check_not_written
from bridge.languages.warp.settings import configured
from bridge.languages.warp.wrapper import check_homes
from bridge.table import LANGUAGES

Operations = list[tuple[RecordedOperation, Generated | None]]
"""The operations on a platform, each with the code of its kernel if it is a launch."""


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


@dataclass(frozen=True)
class WarpRecording:
    """What a function did.

    Attributes:
        operations: In order. Buffers are numbered: the arrays given to the function, then its temporaries. Memory from
            outside is where it is.
        temporaries: Bytes of each temporary.
        uses: What was done with the memory of each buffer; None stands for all memory from outside, and
            :data:`CONSTANT` for memory of data.
        homes: The devices that have this memory.
        codes: Gives the code of a kernel for blocks of so many threads, by platform.
        guarded: The inputs of a call that the function gets copies of.
        alive: What it refers to.
    """

    operations: tuple[RecordedOperation, ...]
    temporaries: tuple[int, ...]
    uses: dict[int | None, Uses]
    homes: tuple[Any, ...]
    codes: Callable[[Any, int | None], dict[str, Generated | KernelCompileError]]
    guarded: tuple[int, ...]
    alive: Any

    @property
    def is_self_contained(self) -> bool:
        """Whether it uses no memory but that of its arrays and temporaries."""
        return not {None, CONSTANT} & self.uses.keys()

    @property
    def writes_outside(self) -> bool:
        """Whether it may write to memory from outside."""
        return not only_read(self.uses.get(None, frozenset()))

    def on(self, platform: str) -> Operations | None:
        """The operations on a platform. None on CUDA if one of them is a jump.

        Raises:
            KernelCompileError: Warp cannot generate the code of a kernel.
        """
        if platform == "cuda" and not all(op.launch for op in self.operations):
            return None
        made: Operations = []
        for op in self.operations:
            code = self.codes(op.launch.kernel, op.launch.block_dim)[platform] if op.launch else None
            if isinstance(code, KernelCompileError):
                raise code
            made.append((op, code))
        return made

    def content(self, operations: Operations, buffers: Sequence[int]) -> str | None:
        """Everything that a replay does on the buffers with these numbers, as text.

        None if it refers to memory or objects of this process.
        """
        if not self.is_self_contained or any(code and takes_handle(code) for _, code in operations):
            return None
        return repr(([(op, code and code.digest) for op, code in operations], self.temporaries, buffers))


@dataclass(frozen=True, eq=False)
class WarpFunction(Definition):
    """A Python function that launches kernels.

    Attributes:
        like_kernel: Has its name, itself and its annotated parameters where a kernel has them.
        parameters: Its parameters.
        refers: What it takes from its globals and its closure.
        recordings: What it did, by the values and types of a call and Warp's settings.
        outside: The keys of the recordings that use arrays from outside.
    """

    like_kernel: Any = field(repr=False)
    parameters: tuple[WarpParameter, ...] = field(repr=False)
    refers: tuple[Any, ...] = field(repr=False)
    recordings: dict[Any, list[WarpRecording]] = field(default_factory=dict, init=False, repr=False)
    outside: set[Any] = field(default_factory=set, init=False, repr=False)

    @property
    def results(self) -> list[WarpParameter]:
        """The array parameters that are returned, in order."""
        return [p for p in self.parameters if p.role is not Role.INPUT]

    @property
    def inputs(self) -> list[WarpParameter]:
        """The array parameters that are passed."""
        return inputs_of(self.parameters)

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
            element = element_type(array.dtype, tuple(shape[p.ndim :])) if is_open else declared.type.dtype  # a quat
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
            if None in made.uses:
                self.outside.add(key)
            same = (index for index, each in enumerate(known) if each.operations == made.operations)
            if (number := next(same, len(known))) == len(known):
                known.append(made)
            return msgspec.structs.replace(options, recording=number)

    def recorded(self, options: StaticValues, signature: Signature) -> WarpRecording:
        """What the function does."""
        key = options.values, signature, configured()
        if not self.recordings.get(key):  # a program of another process calls it
            self.latest(options, signature)
        return self.recordings[key][options.recording]

    def _record(self, options: StaticValues, signature: Signature) -> WarpRecording:
        """Runs the function, and notes what it does.

        Raises:
            RecordingError: The function raised, did something that cannot be repeated, or left out an output.
            SignatureError: It writes to an input.
        """
        with codegen_lock():
            recorder = WarpRecorder(self.name)
            arguments = self.arguments(options.values, signature, lambda _, array: recorder.reserve(array), "cpu")
            try:
                with noting(recorder):
                    self.function(*arguments)
            except MemoryError:
                raise
            except Exception as error:
                raise recorder.error(f"{type(error).__name__}: {error}") from error
            if recorder.refused:  # the function caught the error
                raise recorder.error("")
            codes, used = functools.cache(generated_everywhere), functools.cache(Generated.uses)
            uses: dict[int | None, Uses] = {}
            for op in recorder.operations:
                launch: Any = op.launch
                made = codes(launch.kernel, launch.block_dim).values() if launch else ()
                known = [used(code, backward=launch.backward) for code in made if isinstance(code, Generated)]
                for buffer, use in op.touched:
                    if not isinstance(use, frozenset):
                        use = frozenset[str]().union(*(each[launch.kernel.adj.args[use].label] for each in known))
                    uses[buffer] = uses.get(buffer, frozenset()) | use
        in_call = {at: uses.get(index, frozenset[str]()) for index, at in enumerate(self.buffers)}
        by_name = {p.name: in_call[at] for at, p in enumerate((*self.inputs, *self.results)) if at in in_call}
        check_not_written(self.name, self.parameters, by_name)
        for at, p in enumerate(self.results, len(self.inputs)):
            if p.role is Role.OUTPUT and only_read(in_call[at]) and 0 not in signature.arrays[at].extents:
                raise recorder.error(f"it does not write to its output {p.name!r}{ADVICE}")
        guarded = tuple(at for at, p in enumerate(self.inputs) if p.role is Role.INPUT and not only_read(in_call[at]))
        temporaries = tuple(size for _, size in recorder.ranges[len(self.buffers) :])
        homes = tuple(recorder.homes.values())
        return WarpRecording(tuple(recorder.operations), temporaries, uses, homes, codes, guarded, recorder.alive)

    def python_plan(
        self, options: StaticValues, signature: Signature, platform: str, made: WarpRecording | None
    ) -> HostPlan:
        """The plan that calls the function in Python, on XLA's stream, or repeats it as a graph of Warp's.

        Args:
            made: What the function does, if it was recorded.
        """
        graphs = WarpGraphs()

        def call(stream: int, ordinal: int, addresses: Sequence[int]) -> None:
            device = cpu_device(self.name) if platform == "cpu" else wp.get_device(f"cuda:{ordinal}")
            if elsewhere := [home for home in made.homes if home != device] if made else ():
                raise PlatformError(f"it runs on {device}, but uses an array on {elsewhere[0]}. Put both on one.")

            def run() -> None:
                self.function(*self.arguments(options.values, signature, lambda at, _: addresses[at], device))

            scope: Any = wp.ScopedDevice(device) if device.is_cpu else wp.ScopedStream(_stream(ordinal, stream), False)
            with codegen_lock(), scope:
                if made and made.is_self_contained and can_capture(device):
                    graphs.run((ordinal, *addresses), device, run)
                else:
                    run()

        return python_plan(self.name, call, len(signature.arrays))


@functools.cache
def _stream(ordinal: int, stream: int) -> wp.Stream:
    return wp.Stream(wp.get_cuda_device(ordinal), cuda_stream=stream)


class _Callables(NativeLanguage[WarpFunction, StaticValues]):
    def compile(self, definition: WarpFunction, options: StaticValues, signature: Signature, platform: str) -> Compiled:
        name, arrays = definition.name, len(signature.arrays)
        made = None if options.python_call else definition.recorded(options, signature)
        temporaries, homes = (made.temporaries, made.homes) if made else ((), ())
        guarded = (
            made.guarded if made else tuple(index for index, p in enumerate(definition.inputs) if p.role is Role.INPUT)
        )
        on_one = "it writes to arrays that were not passed, or that lie on one of them. Pass them as arguments."
        one_device = on_one if made and (made.writes_outside or (homes and platform == "cuda")) else ""
        operations = made.on(platform) if made else None
        buffers = [*definition.buffers, *range(arrays, arrays + len(temporaries))]

        def plan() -> Plan:
            check_homes(name, options.values, homes, platform)
            if made is None or operations is None:
                return definition.python_plan(options, signature, platform, made)
            alive = definition, made
            if platform == "cpu":
                return repeat_on_host(name, operations, buffers, None in made.uses, alive)
            count = arrays + len(temporaries) + len(guarded)
            return repeat_on_device(name, operations, buffers, count, homes, alive)

        if made is None or operations is None:
            target = CPU if platform == "cpu" else CUDA_HOST
            return Compiled(None, plan, temporaries, guarded, target, one_device)
        if available("cuda") == (platform == "cuda"):
            plan = functools.cache(plan)
            plan()  # now, because what the code of the kernels refers to may change
        in_turn = CUDA_IN_TURN if platform == "cuda" and None in made.uses else None
        return Compiled(made.content(operations, buffers), plan, temporaries, guarded, in_turn, one_device)

    def settings(self, definition: WarpFunction) -> tuple[Any, ...]:
        return configured()


LANGUAGE = _Callables(
    LANGUAGES["warp_callable"],
    compiler="Warp",
    options_type=StaticValues,
    local_kernels="it is called in Python, or refers to objects of this process, such as a mesh, or an array that was "
    "not passed. Pass arrays as arguments.",
)


def precise(p: WarpParameter) -> WarpParameter:
    """The parameter in the type in which the function gets its value: a float is one of Python, which has 64 bits."""
    is_float = str(p.dtype) in ("float16", "bfloat16", "float32")
    return replace(p, dtype="float64") if is_float and not p.inner and not p.is_array else p
