"""Python functions that launch Numba-CUDA kernels as JAX operations: :func:`numba_cuda_callable`."""

from __future__ import annotations

import ctypes
import json
import types
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from bridge.errors import KernelTypeError
from bridge.ffi.kernel_call import Compiled
from bridge.ffi.plans import callback
from bridge.ffi.plans.device import DevicePlan
from bridge.ffi.target import CUDA, CUDA_PYTHON, Entry, Target
from bridge.languages.numba_cuda.cuda_jit import require_cuda
from bridge.languages.wrapper import wrap
from bridge.signature.outputs import check_known_shapes
from bridge.source.captured import captured_arrays, error_of
from bridge.source.content import function_digest, undefined_kernel

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
            stream. It launches kernels on that stream, and may make temporaries with ``cuda.device_array``; they live
            until the work queued before the function dropped them is done. It must write every element of its outputs,
            must leave its inputs as they are unless they are aliased, and must not call JAX.
        outs: Shape and dtype of the results: a ``jax.ShapeDtypeStruct``, or a list or pytree of them; or a function of
            the inputs that returns these, as for :func:`bridge.numba_kernel`.
        replay: By default ``func`` runs at each call, under the GIL. If true, it runs once for each set of shapes, when
            JAX traces the call; its launches are recorded and from then on made by native code, temporaries included,
            also in CUDA graphs. For functions whose launches depend on shapes alone.
        vmap_method: As for :func:`bridge.numba_kernel`: by default one call goes through the elements of the batch.
        input_output_aliases: Pairs of input and output index that share a buffer; ``func`` may write to such an input.

    Returns:
        A ``jax.jit`` function of the input arrays that returns what ``outs`` describes.

    Raises:
        ImportError: numba-cuda is not installed, or there is no NVIDIA GPU.
        KernelTypeError: ``func`` is not a Python function.
        SignatureError: As for :func:`bridge.numba_kernel`.
        KernelCompileError: When called: a kernel that ``func`` launches takes a JAX array from its closure or globals.
        RecordingError: With ``replay=True``, when called: ``func`` synchronised, copied to the host, used another
            stream or raised.

    Warns:
        UnwrittenOutputWarning: When called: ``func`` has no use for an output.

    An exception in ``func`` reaches the caller as a JAX runtime error with its type and message. The function has no
    derivative; attach one as for :func:`bridge.numba_kernel`.
    """
    require_cuda()
    if not isinstance(func, types.FunctionType):
        raise KernelTypeError(
            f"numba_cuda_callable got {func!r} of type {type(func).__name__}, expected a Python function that takes "
            "the inputs, the outputs and a stream. For one kernel decorated with numba.cuda.jit use numba_cuda_kernel."
        )
    return wrap(_Callable(_definition(func), bool(replay)), outs, vmap_method, input_output_aliases)


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
    """A function and how it runs: a :class:`bridge.languages.wrapper.Kernel`."""

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

    @property
    def source_function(self) -> types.FunctionType:
        return self.definition.launcher

    def code(self, inputs: Sequence[Any], outputs: Sequence[Any], writable: frozenset[int]) -> Compiled:
        """The function planned for these shapes and dtypes; recorded now, if it is to be replayed."""
        check_known_shapes([*inputs, *outputs], self.name)
        _check_captured(self.definition.launcher)
        arrays = tuple((tuple(array.shape), str(array.dtype)) for array in (*inputs, *outputs))
        return Compiled(self.target, self.typed_entry(arrays, len(inputs)))

    def typed_entry(self, arrays: tuple[tuple[tuple[int, ...], str], ...], input_count: int) -> Entry:
        """The entry for these shapes and dtypes, planned now if it is new."""
        call = json.dumps({"replay": self.replay, "inputs": input_count, "arrays": arrays})
        description = f"{_LANGUAGE}:{self.name}:{self.definition.digest} {call}"
        shapes = [(shape, jnp.dtype(dtype)) for shape, dtype in arrays]
        build = self._record if self.replay else self._plan_calls
        return self.target.publish(description, lambda: build(shapes, input_count))

    def _plan_calls(self, shapes: list[tuple[tuple[int, ...], Any]], input_count: int) -> tuple[Any, ...]:
        sizes = [(len(shape), dtype.itemsize) for shape, dtype in shapes]
        from bridge.languages.numba_cuda.caller import Caller

        caller = Caller(self.name, self.definition.launcher, shapes)
        plan = callback.CallbackPlan(
            self.name, caller.function_address, caller.identity, sizes[:input_count], sizes[input_count:]
        )
        words, alive = plan.words()
        return ctypes.addressof(words), (words, alive, caller)

    def _record(self, shapes: list[tuple[tuple[int, ...], Any]], input_count: int) -> tuple[Any, ...]:
        from bridge.languages.numba_cuda.launcher import with_launchers
        from bridge.languages.numba_cuda.recording import record

        ordinals = sorted(device.local_hardware_id for device in jax.local_devices(backend="cuda"))
        may_launch_nothing = all(0 in shape for shape, _ in shapes[input_count:])
        function = with_launchers(self.definition.launcher)
        recording = record(self.name, function, shapes, ordinals, may_launch_nothing)
        sizes = [(len(shape), dtype.itemsize) for shape, dtype in shapes]
        outputs = sizes[input_count:] + [(1, 1)] * len(recording.temporaries)
        words, alive = DevicePlan(self.name, sizes[:input_count], outputs, recording.launches).words()
        # The definition keeps the function's kernels loaded.
        return ctypes.addressof(words), (words, alive, self.definition), recording.temporaries


def _check_captured(function: types.FunctionType) -> None:
    """Refuses JAX arrays that a kernel takes from its closure or globals, and traced ones also in the function itself.

    The function may hold an array that has a value: a kernel that it launches takes it as an argument.

    Raises:
        KernelCompileError: There is one.
    """
    for found in captured_arrays(function):
        if found.is_traced or found.compiled:
            code = function.__code__
            raise error_of(function.__name__, f"{code.co_filename}:{code.co_firstlineno}", function, found)


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


def _resolve(description: str) -> Entry:
    """The entry for a call that another process described: its function must have been wrapped in this one."""
    kernel, _, call = description.partition(" ")
    _, name, digest = kernel.split(":")
    definition = _definitions.get(digest)
    if definition is None:
        raise undefined_kernel("CUDA callable", name, digest, "numba_cuda_callable")
    about = json.loads(call)
    arrays = tuple((tuple(shape), dtype) for shape, dtype in about["arrays"])
    return _Callable(definition, about["replay"]).typed_entry(arrays, about["inputs"])


for _target in (CUDA, CUDA_PYTHON):
    _target.resolve_with(_LANGUAGE, _resolve)
