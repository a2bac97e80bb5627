"""Controls the memory of a kernel: fills outputs, puts guard pages around arrays, and fixes addresses of inputs."""

from __future__ import annotations

import contextlib
import functools
import mmap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bridge.ffi.target import CPU
from reports import Status
from suites.backends import Backend
from suites.guards import page_faults
from suites.guards.guarded_calls import Trespass, guarded_calls
from suites.numerics.arrays import Array, Inputs
from suites.numerics.patterns import places
from suites.numerics.verdict import ResultVerdict

# Filled outputs. A program takes its inputs and one donated array for each output. XLA then uses the memory of that
# array for the output (an assertion checks this), so an element that nothing writes still holds the pattern.

POISONS = (0xFF, 0x5A)
"""Bytes that outputs are filled with: NaN (or -1), and a large ordinary number."""


def compile_poisoned(call: Callable[..., Any], outs: Sequence[Any], arguments: Sequence[Any]) -> Any:
    """Compiles ``call`` so that its outputs use the memory of its first argument, a list of arrays like ``outs``."""

    def run(poison: list[jax.Array], *arguments: jax.Array) -> list[jax.Array]:
        return jax.tree.leaves(call(*arguments))

    poison = [jax.ShapeDtypeStruct(out.shape, out.dtype) for out in outs]
    return jax.jit(run, donate_argnums=0, keep_unused=True).lower(poison, *arguments).compile()


def run_poisoned(program: Any, outs: Sequence[Any], arguments: Sequence[Any], byte: int) -> list[Array]:
    """Runs a program of :func:`compile_poisoned` and returns its results.

    Args:
        program: The program.
        outs: Its outputs, anything with shape and dtype.
        arguments: Its inputs, on the device.
        byte: Fills the outputs before the run, and on a GPU also temporary arrays and shared memory.

    Raises:
        AssertionError: XLA did not use the donated memory, so the run proves nothing.
        WrittenBeyond: The program wrote beyond the end of an array, on a GPU.
    """
    poison = [_filled(out, byte) for out in outs]
    addresses = [array.unsafe_buffer_pointer() for array in poison]
    arrays = {f"output {index}": array for index, array in enumerate(poison)}
    arrays |= {f"input {index}": array for index, array in enumerate(arguments)}
    with filled_gpu_memory(program, arrays, byte, next(iter(poison[0].devices()))):
        results = jax.block_until_ready(program(poison, *arguments))
    for result, address, out in zip(results, addresses, outs, strict=True):
        same_type = result.shape == tuple(out.shape) and result.dtype == out.dtype
        if result.size and same_type and result.unsafe_buffer_pointer() != address:
            raise AssertionError("XLA did not use the donated memory for an output, so poisoning it proves nothing")
    return [np.array(result) for result in results]


def disagreement(first: list[Array], second: list[Array], *, deterministic: bool) -> ResultVerdict | None:
    """Compares the results of two runs with :data:`POISONS`; returns None if they agree as far as they must.

    An element that holds the fill of its run in both runs was never written. Any other difference comes from the
    kernel, and is an error of a deterministic kernel.
    """
    differing = [index for index, (a, b) in enumerate(zip(first, second, strict=True)) if a.tobytes() != b.tobytes()]
    if not differing:
        return None
    index = differing[0]
    same = unwritten(((first[index], POISONS[0]), (second[index], POISONS[1])))
    if same.any():
        reason = f"output {index}: {int(same.sum())} of {same.size} elements were never written"
        where = places(same)
        return ResultVerdict(Status.UNWRITTEN_OUTPUT, reason, None, cause=where and f"{where} is never written")
    if deterministic:
        return ResultVerdict(
            Status.NONDETERMINISTIC, f"output {index} differs between two runs on the same inputs", None
        )
    return None


def unwritten(runs: Iterable[tuple[Array, int]]) -> Array:
    """Returns where a result holds in each run the byte with which the output was filled."""
    unchanged = [(run.reshape(-1, 1).view(np.uint8) == byte).all(axis=1).reshape(run.shape) for run, byte in runs]
    same: Array = np.logical_and.reduce(unchanged)
    return same


def _filled(out: Any, byte: int) -> jax.Array:
    dtype = np.dtype(out.dtype)
    # JAX cannot donate memory that it borrows from NumPy. It copies an array that does not begin at a multiple of 64
    # bytes. (jnp.array(copy=True) would compile a program for each shape.)
    pattern = np.full(8 + int(np.prod(out.shape)) * dtype.itemsize, byte, np.uint8)[8:]
    filled: jax.Array = jax.device_put(pattern.view(dtype).reshape(out.shape)).block_until_ready()
    return filled


# Guard pages, on the CPU.

_MOST_TOLD = 3


@dataclass(frozen=True)
class GuardedRuns:
    """How a program ran under guards.

    Attributes:
        results: The results of each run; fewer than two if a run failed.
        fault: The verdict on the first forbidden access; None if there was none.
        calls: How many calls of kernels were guarded.
        missing: Why a call was not guarded; None if all were.
    """

    results: Sequence[Any]
    fault: ResultVerdict | None
    calls: int
    missing: str | None = None

    @property
    def unseen(self) -> ResultVerdict:
        """The verdict on a kernel without a guarded call."""
        why = self.missing or "the program ran without a call that the guards could see"
        return ResultVerdict(Status.UNCHECKED, f"the accesses of the kernel are unknown: {why}", None)


def why_unguarded(backend: Backend, platform: str) -> str | None:
    """Returns why the kernels of a backend cannot run under guards; None if they can."""
    if platform != "cpu" or backend.custom_call(platform) != CPU.name:
        return f"the bridge does not call kernels of {backend.id} on {platform} by addresses that it could guard"
    return page_faults.MISSING


def run_guarded(run: Callable[[int], Any]) -> GuardedRuns:
    """Runs a program twice under guards, once for each end of the arrays.

    Args:
        run: Runs the program and waits for its end. It gets the number of the run.

    Raises:
        Exception: ``run`` raised it, and the guards noted no fault that explains it.
    """
    results, calls = [], 0
    for number in (0, 1):
        error = None
        try:
            with guarded_calls(number) as guards:
                try:
                    results.append(run(number))
                except Exception as raised:
                    error = raised
        except MemoryError as raised:
            return GuardedRuns(results, None, 0, str(raised))
        calls += guards.calls
        if guards.findings:
            return GuardedRuns(results, _fault(guards.findings), calls)
        if error is not None:
            raise error
    return GuardedRuns(results, None, calls)


def _fault(findings: Sequence[Trespass]) -> ResultVerdict:
    """Returns the verdict on forbidden accesses; it names the first access to each array."""
    firsts = list({each.array: each for each in reversed(findings)}.values())[::-1]
    outside = not all(each.is_inside for each in findings)
    reason = f"the kernel {', and '.join(map(str, firsts[:_MOST_TOLD]))}"
    return ResultVerdict(Status.OUT_OF_BOUNDS if outside else Status.INPUT_MUTATED, reason, None)


# Filled memory of a GPU. Without a fill, the memory of a new process is mostly zeros.

MULTIPLE = 256
"""XLA allocates memory of a GPU in multiples of this many bytes."""

CANARY = 0xC5
"""Fills the unused bytes behind arrays."""

_SHARED_BYTES = 48 * 1024
"""Most dynamic shared memory that a block may use without opting in to more."""

_BLOCKS_PER_PROCESSOR, _THREADS = 8, 256


class WrittenBeyond(Exception):
    """A kernel has written beyond the end of an array. The message names the array and the distance."""


@contextlib.contextmanager
def filled_gpu_memory(program: Any, arrays: Mapping[str, jax.Array], byte: int, device: jax.Device) -> Iterator[None]:
    """Fills the memory of a GPU for a program that runs inside the ``with`` block; does nothing on a CPU.

    Temporary arrays, arrays that callables allocate, and shared memory get ``byte``. The unused bytes behind each of
    ``arrays``, which must be finished, get :data:`CANARY`.

    Raises:
        WrittenBeyond: A byte behind an array has changed at the end.
    """
    if device.platform == "cpu":
        yield
        return
    from suites.kernels.numba_cuda.blocks import MISSING, cuda

    behind: dict[str, Any] = {}
    with contextlib.ExitStack() as stack:
        if MISSING is None:
            from bridge.languages.numba_cuda.device_memory import filled_with

            stack.enter_context(filled_with(byte))
            with cuda.gpus[device.local_hardware_id or 0]:
                blocks = _BLOCKS_PER_PROCESSOR * cuda.get_current_device().MULTIPROCESSOR_COUNT
                _filler()[blocks, _THREADS, 0, _SHARED_BYTES](np.uint8(byte))
                behind = {name: _behind(array) for name, array in arrays.items() if -array.nbytes % MULTIPLE}
                for each in behind.values():
                    each.copy_to_device(np.full(each.size, CANARY, np.uint8))
                cuda.synchronize()
        size = program.memory_analysis().temp_size_in_bytes
        if size:  # XLA allocates temporary arrays in freed memory of the same size
            jnp.full(size, byte, jnp.uint8, device=device).block_until_ready().delete()
        yield
    with cuda.gpus[device.local_hardware_id or 0] if behind else contextlib.nullcontext():
        for name, each in behind.items():
            changed = np.flatnonzero(each.copy_to_host() != CANARY)
            if changed.size:
                raise WrittenBeyond(
                    f"writes after the end of {name}: {changed.size} of the {each.size} bytes behind its last element "
                    f"have changed, the first {int(changed[0])} bytes after its end"
                )


def _behind(array: jax.Array) -> Any:
    """The unused bytes behind an array."""
    from numba import cuda

    begin, count = array.unsafe_buffer_pointer() + array.nbytes, -array.nbytes % MULTIPLE
    return cuda.from_cuda_array_interface({"shape": (count,), "typestr": "|u1", "data": (begin, False), "version": 3})


@functools.cache
def _filler() -> Any:
    from numba import cuda

    @cuda.jit
    def fill(byte: Any) -> None:
        shared = cuda.shared.array(0, np.uint8)
        i = cuda.threadIdx.x
        while i < _SHARED_BYTES:
            shared[i] = byte
            i += _THREADS

    return fill


# Inputs at fixed addresses.

_ALIGNMENT = 64
"""On a CPU, JAX borrows the memory of a NumPy array that begins at a multiple of this many bytes."""

_PAGE = 4096
_SKEW = 17 * _ALIGNMENT

_ADVISED_FROM = 1 << 22
"""From this size on NumPy asks Linux for large pages, where reading 16 MiB or more takes up to a third less time. XLA,
which allocates a user's arrays, does not ask for them. So the inputs are allocated without NumPy."""


class RefilledMemory:
    """Memory on a device for inputs of one set of shapes and dtypes.

    On a CPU, JAX borrows the memory from NumPy, and NumPy refills it. On a GPU, a program writes new contents to
    donated memory.

    Args:
        like: Inputs with these shapes and dtypes.
        device: Where the memory lies.
    """

    def __init__(self, like: Inputs, device: jax.Device):
        self._device = device
        self._on_host = device.platform == "cpu"
        self._arrays = [_aligned(array, index) for index, array in enumerate(like)]
        self._placed: list[jax.Array] | None = None

    def fill(self, inputs: Inputs) -> list[jax.Array]:
        """Returns inputs on the device, at the addresses of the previous inputs. Do not use those arrays again.

        Raises:
            AssertionError: An input has another address, so the calls prove nothing.
        """
        if self._on_host or self._placed is None:
            self._placed = None
            for array, new in zip(self._arrays, inputs, strict=True):
                np.copyto(array, new)
            placed = jax.block_until_ready([jax.device_put(array, self._device) for array in self._arrays])
            own = [array.ctypes.data for array in self._arrays] if self._on_host else _addresses(placed)
        else:
            own = _addresses(self._placed)
            placed = jax.block_until_ready(
                _write(self._placed, [jax.device_put(each, self._device) for each in inputs])
            )
        pairs = zip(placed, _addresses(placed), own, strict=True)
        if any(array.size and address != expected for array, address, expected in pairs):
            raise AssertionError("an input does not lie at the address that it had before, so the calls prove nothing")
        self._placed = placed
        return list(placed)


def _addresses(arrays: Sequence[jax.Array]) -> list[int]:
    return [array.unsafe_buffer_pointer() for array in arrays]


def _aligned(like: Array, index: int) -> Array:
    """Returns an array of this shape and dtype that JAX can borrow; ``index`` is its number among the inputs."""
    size = like.nbytes + _PAGE + _ALIGNMENT
    memory = np.zeros(size, np.uint8) if size < _ADVISED_FROM else np.frombuffer(mmap.mmap(-1, size), np.uint8)
    # Arrays begin at different offsets in a page. With equal offsets, loads of one would wait for stores to another.
    start = index * _SKEW % _PAGE + -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + like.nbytes].view(like.dtype).reshape(like.shape)


@functools.partial(jax.jit, donate_argnums=0, keep_unused=True)
def _write(old: Sequence[jax.Array], new: Sequence[jax.Array]) -> list[jax.Array]:
    """Copies arrays to the donated memory of others."""
    return [jnp.copy(array) for array in new]
