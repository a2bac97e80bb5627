"""Records what a Python function does with Warp once, so that native code can repeat it on the CPU and on CUDA.

The function runs with arrays of the CPU that no kernel ever sees: each launch, and each call of Warp's library that
zeroes, fills, copies, scans, sums or sorts, is noted instead of made. It becomes a block of words, in which native code
fills in the addresses of a call; memory from outside of the function stays where it is. Any other call of the library
is refused by its name. Warp keeps its own record at the same time, of the operations that reach its library: if one
does, it went past the notes, and the recording is refused too. Nothing is compiled meanwhile. So the recording needs no
GPU, and holds what CUDA has to know besides: the threads of each block, and the launches that take the place of the
library's functions.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bridge.compat.warp import noting
from bridge.errors import KernelCompileError
from bridge.kernel.arguments import ArrayType
from bridge.languages.warp.callable.recorder import CONSTANT, Recorded, WarpRecorder
from bridge.languages.warp.generated import Generated, generating, takes_handle
from bridge.languages.warp.inputs import Uses, only_read
from bridge.languages.warp.planned import generated_everywhere

Operations = list[tuple[Recorded, Generated | None]]
"""The operations on a platform, each with the code of its kernel if it is a launch."""


@dataclass(frozen=True)
class WarpRecording:
    """What a function did.

    Attributes:
        name: The function.
        operations: In order, as on the CPU. Buffers are numbered: the arrays given to the function, then its
            temporaries. Memory from outside is where it is.
        temporaries: Bytes of each temporary.
        uses: What was done with the memory of each buffer; None stands for all memory from outside, and
            :data:`CONSTANT` for memory of data.
        homes: The devices that have this memory.
        codes: Gives the code of a kernel for blocks of so many threads, by platform.
        alive: What it refers to.
    """

    name: str
    operations: tuple[Recorded, ...]
    temporaries: tuple[int, ...]
    uses: dict[int | None, Uses]
    homes: tuple[Any, ...]
    codes: Callable[[Any, int | None], Mapping[str, Generated | KernelCompileError]]
    alive: Any

    @property
    def writes_outside(self) -> bool:
        """Whether it may write to memory from outside."""
        return not only_read(self.uses.get(None, frozenset()))

    def on(self, platform: str) -> Operations | None:
        """The operations on a platform. None if launches alone cannot do there what one of them does.

        Raises:
            KernelCompileError: Warp cannot generate the code of a kernel.
        """
        made: Operations = []
        for op in self.operations:
            each = (op,) if platform == "cpu" or op.launch else op.on_cuda
            if each is None:
                return None
            for one in each:
                code = self.codes(one.launch.kernel, one.launch.block_dim)[platform] if one.launch else None
                if isinstance(code, KernelCompileError):
                    raise code
                made.append((one, code))
        return made

    def content(self, operations: Operations, buffers: Sequence[int]) -> str | None:
        """Everything that a replay does on the buffers with these numbers, as text.

        None if it refers to memory or objects of this process.
        """
        if {None, CONSTANT} & self.uses.keys() or any(code and takes_handle(code) for _, code in operations):
            return None
        plain = [(replace(op, on_cuda=None), code and code.digest) for op, code in operations]
        return repr((plain, self.temporaries, buffers))


def record(
    name: str, function: Callable[..., None], make_arguments: Callable[[Callable[[ArrayType], int]], Any]
) -> WarpRecording:
    """Runs a function, and notes what it does.

    Args:
        name: The function, for errors.
        function: The function.
        make_arguments: Makes its arguments, from a function that gives an address for the type of an array.

    Raises:
        RecordingError: The function raised, or did something that cannot be repeated.
    """
    with generating():
        recorder = WarpRecorder(name)
        arguments = make_arguments(recorder.reserve)
        array_count = len(recorder.ranges)
        try:
            with noting(recorder):
                function(*arguments)
        except MemoryError:
            raise
        except Exception as error:
            raise recorder.error(f"{type(error).__name__}: {error}") from error
        if recorder.refused:  # the function caught the error
            raise recorder.error("")
        return _recording(recorder, array_count)


def _recording(recorder: WarpRecorder, array_count: int) -> WarpRecording:
    """The recording. The first buffers are the function's arrays."""
    codes, used = functools.cache(generated_everywhere), functools.cache(Generated.uses)
    uses: dict[int | None, Uses] = {}
    for op in recorder.operations:
        launch: Any = op.launch
        made = codes(launch.kernel, launch.block_dim).values() if launch else ()
        found = [used(code, backward=launch.backward) for code in made if isinstance(code, Generated)]
        for buffer, use in op.touched:
            if not isinstance(use, frozenset):
                use = frozenset[str]().union(*(each[launch.kernel.adj.args[use].label] for each in found))
            uses[buffer] = uses.get(buffer, frozenset()) | use
    temporaries, homes = tuple(size for _, size in recorder.ranges[array_count:]), tuple(recorder.homes.values())
    return WarpRecording(recorder.name, tuple(recorder.operations), temporaries, uses, homes, codes, recorder.alive)
