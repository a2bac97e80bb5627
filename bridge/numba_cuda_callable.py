"""Python functions that launch Numba-CUDA kernels as JAX operations: :func:`numba_cuda_callable`."""

from __future__ import annotations

import ctypes
import itertools
import json
import types
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from bridge.content import PROCESS_LOCAL, function_digest
from bridge.cuda_memory import allocating_with, hook, in_stream_order
from bridge.cuda_recording import device_array, record
from bridge.errors import BridgeError, KernelTypeError
from bridge.ffi import callback
from bridge.ffi.device import DevicePlan
from bridge.ffi.target import CUDA, CUDA_PYTHON, Entry, Target
from bridge.numba_cuda import require_cuda
from bridge.numba_exceptions import describe_to_c_string
from bridge.wrapper import wrap

_LANGUAGE = "numba_cuda_callable"


def numba_cuda_callable(
    func: Callable[..., None],
    outs: Any,
    *,
    replay: bool = False,
    vmap_method: str | None = None,
    input_output_aliases: Mapping[int, int] | None = None,
) -> Callable[..., Any]:
    """Makes a Python function that launches CUDA kernels callable from JAX.

    Args:
        func: Called as ``func(input, ..., output, ..., stream)`` with Numba device arrays over XLA's memory and XLA's
            stream. It launches kernels on that stream, and may make temporaries with ``cuda.device_array``; they live until
            the work queued before the function dropped them is done. It must write every element of its outputs, must
            leave its inputs as they are unless they are aliased, and must not call JAX.
        outs: Shape and dtype of the results: a ``jax.ShapeDtypeStruct``, or a list or pytree of them.
        replay: By default ``func`` runs at each call, under the GIL. If true, it runs once for each set of shapes, when JAX
            traces the call; its launches are recorded and from then on made by native code, temporaries included, also in
            CUDA graphs. For functions whose launches depend on shapes alone.
        vmap_method: As for :func:`bridge.numba_kernel`: by default one call goes through the elements of the batch.
        input_output_aliases: Pairs of input and output index that share a buffer; ``func`` may write to such an input.

    Returns:
        A ``jax.jit`` function of the input arrays that returns what ``outs`` describes.

    Raises:
        ImportError: numba-cuda is not installed, or there is no NVIDIA GPU.
        KernelTypeError: ``func`` is not a Python function.
        SignatureError: As for :func:`bridge.numba_kernel`.
        RecordingError: With ``replay=True``, when called: ``func`` synchronised, copied to the host, used another stream or
            raised.

    An exception in ``func`` reaches the caller as a JAX runtime error with its type and message.
    """
    require_cuda()
    if not isinstance(func, types.FunctionType):
        raise KernelTypeError(
            f"numba_cuda_callable got {func!r} of type {type(func).__name__}, expected a Python function that takes the "
            "inputs, the outputs and a stream. For a single kernel decorated with numba.cuda.jit use numba_cuda_kernel."
        )
    return wrap(_Callable(_definition(func), replay), outs, vmap_method, input_output_aliases)


class _Definition:
    """One function as the user defined it: one object for each content."""

    def __init__(self, function: types.FunctionType, digest: str):
        self.launcher = function
        self.name = function.__name__
        self.digest = digest


_definitions: weakref.WeakValueDictionary[str, _Definition] = weakref.WeakValueDictionary()


def _definition(function: types.FunctionType) -> _Definition:
    digest = function_digest(function)
    return _definitions.get(digest) or _definitions.setdefault(digest, _Definition(function, digest))


@dataclass(frozen=True)
class _Callable:
    """A function and how it runs: a :class:`bridge.wrapper.Kernel`."""

    definition: _Definition
    replay: bool

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def target(self) -> Target:
        return CUDA if self.replay else CUDA_PYTHON

    @property
    def function(self) -> Callable[..., Any]:
        return _without_stream(self.definition.launcher)

    def entry(self, inputs: Sequence[Any], outputs: Sequence[Any], writable: frozenset[int]) -> Entry:
        """The function planned for these shapes and dtypes; recorded now, if it is to be replayed."""
        arrays = tuple((tuple(array.shape), str(array.dtype)) for array in (*inputs, *outputs))
        return self.typed_entry(arrays, len(inputs))

    def typed_entry(self, arrays: tuple[tuple[tuple[int, ...], str], ...], input_count: int) -> Entry:
        """The entry for these shapes and dtypes, planned now if it is new."""
        call = json.dumps({"replay": self.replay, "inputs": input_count, "arrays": arrays})
        description = f"{_LANGUAGE}:{self.name}:{self.definition.digest} {call}"
        shapes = [(shape, jnp.dtype(dtype)) for shape, dtype in arrays]
        build = self._record if self.replay else self._plan_calls
        return self.target.publish(description, lambda: build(shapes, input_count))

    def _plan_calls(self, shapes: list[tuple[tuple[int, ...], Any]], input_count: int) -> tuple[Any, ...]:
        sizes = [(len(shape), dtype.itemsize) for shape, dtype in shapes]
        caller = _Caller(self.definition, shapes)
        function = ctypes.cast(_call_python, ctypes.c_void_p).value
        assert function is not None
        plan = callback.CallbackPlan(self.name, function, caller.identity, sizes[:input_count], sizes[input_count:])
        words, alive = plan.words()
        return ctypes.addressof(words), (words, alive, caller)

    def _record(self, shapes: list[tuple[tuple[int, ...], Any]], input_count: int) -> tuple[Any, ...]:
        ordinals = sorted(device.local_hardware_id for device in jax.local_devices(backend="cuda"))
        recording = record(self.name, self.definition.launcher, shapes, ordinals)
        sizes = [(len(shape), dtype.itemsize) for shape, dtype in shapes]
        outputs = sizes[input_count:] + [(1, 1)] * len(recording.temporaries)
        words, alive = DevicePlan(self.name, sizes[:input_count], outputs, recording.launches).words()
        # The definition keeps the function's kernels loaded.
        return ctypes.addressof(words), (words, alive, self.definition), recording.temporaries


def _without_stream(function: types.FunctionType) -> Callable[..., Any]:
    """A stand-in whose parameters are those of ``function`` but for the stream, which the caller does not pass."""
    import inspect

    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    if parameters and parameters[-1].kind is not inspect.Parameter.VAR_POSITIONAL:
        parameters.pop()

    def stand_in(*args: Any) -> None: ...

    stand_in.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    stand_in.__doc__ = function.__doc__
    return stand_in


class _Caller:
    """Calls a function with device arrays over the buffers of one call."""

    _identities = itertools.count(1)

    def __init__(self, definition: _Definition, shapes: Sequence[tuple[tuple[int, ...], Any]]):
        self.identity = next(self._identities)
        self.definition = definition
        self._shapes = shapes
        # XLA tends to use the same buffers again, and wrapping one costs microseconds.
        self._arrays: dict[tuple[int, int, int], Any] = {}
        self._streams: dict[int, Any] = {}
        _callers[self.identity] = self

    def __call__(self, stream: int, ordinal: int, addresses: Sequence[int]) -> None:
        from numba import cuda
        from numba.cuda.cudadrv import devices

        context = devices.get_context()
        hook(context)
        if len(self._arrays) > 1024:
            self._arrays.clear()
        arrays = []
        for index, address in enumerate(addresses):
            array = self._arrays.get((ordinal, index, address))
            if array is None:
                from cuda.bindings import driver as cu

                shape, dtype = self._shapes[index]
                array = device_array(context, shape, dtype, lambda _, address=address: cu.CUdeviceptr(address))
                self._arrays[ordinal, index, address] = array
            arrays.append(array)
        if stream not in self._streams:
            self._streams[stream] = cuda.external_stream(stream)
        with allocating_with(in_stream_order(stream, ordinal)):
            self.definition.launcher(*arrays, self._streams[stream])


_callers: weakref.WeakValueDictionary[int, _Caller] = weakref.WeakValueDictionary()


@callback.FUNCTION
def _call_python(identity: int, words_address: int) -> int:
    """Called by native code, on XLA's thread, with the device's context current."""
    caller = _callers[identity]
    try:
        stream, ordinal, *addresses = (ctypes.c_int64 * (2 + len(caller._shapes))).from_address(words_address)
        caller(stream, ordinal, addresses)
    except Exception as error:
        return describe_to_c_string(caller.definition.name, type(error), error, error.__traceback__)
    return 0


def _resolve(description: str) -> Entry:
    """The entry for a call that another process described: its function must have been wrapped in this one."""
    kernel, _, call = description.partition(" ")
    _, name, digest = kernel.split(":")
    definition = _definitions.get(digest)
    if definition is None:
        advice = (
            "It depends on an object that has no content of its own, so no other process can rebuild it."
            if digest.startswith(PROCESS_LOCAL)
            else "Call numba_cuda_callable on the same function (same code and constants) before this program runs."
        )
        raise BridgeError(f"this program calls the CUDA callable {name!r}, which this process has not defined. {advice}")
    about = json.loads(call)
    arrays = tuple((tuple(shape), dtype) for shape, dtype in about["arrays"])
    return _Callable(definition, about["replay"]).typed_entry(arrays, about["inputs"])


for _target in (CUDA, CUDA_PYTHON):
    _target.resolve_with(_LANGUAGE, _resolve)
