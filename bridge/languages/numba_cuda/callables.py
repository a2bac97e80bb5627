"""Makes Python functions that launch Numba-CUDA kernels callable from JAX: :func:`numba_cuda_callable`."""

from __future__ import annotations

import inspect
import itertools
import threading
import types
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from bridge.errors import KernelTypeError
from bridge.ffi.built import Built
from bridge.ffi.cuda.ordinals import local_ordinals
from bridge.ffi.plans.device import DevicePlan
from bridge.ffi.target import CUDA, CUDA_PYTHON, Target
from bridge.languages.compiled_kernel import Compiled
from bridge.languages.copying import copied_as_a_call
from bridge.languages.definitions import DEFINITIONS
from bridge.languages.extras import require_cuda
from bridge.languages.language import Standing
from bridge.languages.native_language import Definition, NativeLanguage
from bridge.languages.numba_cuda.array_parameters import array_shapes
from bridge.languages.wrapper import wrap
from bridge.signature.array_types import Signature
from bridge.source.captured import captured_arrays, error_of
from bridge.source.content import function_digest


@copied_as_a_call()
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
            until the work that was queued before they were dropped is done. It must write every element of its outputs,
            must leave its inputs as they are unless they are aliased, and must not call JAX.
        outs: Shape and dtype of the results: a ``jax.ShapeDtypeStruct``, or a list or pytree of them; or a function of
            the inputs that returns these, as for :func:`bridge.numba_kernel`.
        replay: By default ``func`` runs at each call, under the GIL. If true, it runs once for each set of shapes, when
            JAX traces the call. Its launches are recorded, temporaries included, and native code replays them, also in
            CUDA graphs. Only for functions whose launches depend on nothing but shapes.
        vmap_method: As for :func:`bridge.numba_kernel`: by default one call goes through the elements of the batch.
        input_output_aliases: Pairs of input and output index that share a buffer; ``func`` may write to such an input.

    Returns:
        A ``jax.jit`` function of the input arrays that returns the results that ``outs`` describes.

    Raises:
        ImportError: numba-cuda is not installed, or there is no NVIDIA GPU.
        KernelTypeError: ``func`` is not a Python function.
        SignatureError: As for :func:`bridge.numba_kernel`.
        KernelCompileError: When called: a kernel that ``func`` launches takes a JAX array from its closure or globals.
        RecordingError: With ``replay=True``, when called: ``func`` synchronised, copied, used another stream, launched
            a kernel that is compiled with ``debug=True``, or raised. It does not matter where it did so, nor whether it
            caught the error.

    Warns:
        UnwrittenOutputWarning: When called: ``func`` does not use an output.

    An exception in ``func`` reaches the caller as a JAX runtime error with its type and message. The function has no
    derivative; attach one as for :func:`bridge.numba_kernel`.
    """
    require_cuda()
    if not isinstance(func, types.FunctionType):
        raise KernelTypeError(
            f"numba_cuda_callable got {func!r} of type {type(func).__name__}, expected a Python function that takes "
            "the inputs, the outputs and a stream. For one kernel decorated with numba.cuda.jit use numba_cuda_kernel."
        )
    digest = function_digest(func)
    definition = DEFINITIONS.define(LANGUAGE, (id(func), digest), lambda: CallableDefinition.of(func, digest))
    return wrap(LANGUAGE, definition, CallableOptions(bool(replay)), outs, vmap_method, input_output_aliases)


@dataclass(frozen=True, eq=False)
class CallableDefinition(Definition):
    """A Python function that launches kernels.

    Attributes:
        launcher: The function, called with the arrays and a stream.
        digest: Names its content. Functions that differ may have one digest, see :class:`_Digests`.
    """

    launcher: types.FunctionType
    digest: str

    @classmethod
    def of(cls, function: types.FunctionType, digest: str) -> CallableDefinition:
        return cls(function.__name__, _without_stream(function), function, function, digest)


class _Digests:
    """Gives each digest to one function of this process: the first one that JAX lowers a call of.

    What a Python function does cannot be read off from it completely, so equal digests do not prove that two functions
    do the same. A later function with a digest that is taken has an identity of its own, which only this process knows.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owners: dict[str, int] = {}
        self._numbers = itertools.count()
        self._number_of: weakref.WeakKeyDictionary[CallableDefinition, int] = weakref.WeakKeyDictionary()

    def claim(self, definition: CallableDefinition) -> str | None:
        """The digest of a function, or None if another one has it."""
        with self._lock:
            number = self._number_of.setdefault(definition, next(self._numbers))
            return definition.digest if self._owners.setdefault(definition.digest, number) == number else None


_DIGESTS = _Digests()


class CallableOptions(msgspec.Struct, frozen=True):
    """How a callable runs.

    Attributes:
        replay: Record its launches once, when a call is traced, and replay them natively; if not, run it at each call.
    """

    replay: bool


class _Callables(NativeLanguage[CallableDefinition, CallableOptions]):
    def target(self, options: CallableOptions, platform: str) -> Target:
        return CUDA if options.replay else CUDA_PYTHON

    def check(self, definition: CallableDefinition, options: CallableOptions, signature: Signature) -> None:
        super().check(definition, options, signature)
        _check_captured(definition.launcher)

    def compile(
        self, definition: CallableDefinition, options: CallableOptions, signature: Signature, platform: str
    ) -> Compiled:
        if options.replay:
            return _record(definition, signature)
        return Compiled(_DIGESTS.claim(definition), lambda: _plan_calls(definition, signature))


LANGUAGE = _Callables(
    "numba_cuda_callable",
    {"cuda": Standing.REGULAR},
    kernel_kind="CUDA callable",
    wrapper="numba_cuda_callable",
    compiler="Numba-CUDA",
    options_type=CallableOptions,
)


def _plan_calls(definition: CallableDefinition, signature: Signature) -> Built:
    """The plan that runs the function at each call."""
    from bridge.languages.numba_cuda.caller import Caller
    from bridge.languages.numba_cuda.launcher import with_launchers

    caller = Caller(definition.name, with_launchers(definition.launcher), array_shapes(signature))
    return Built(caller.plan(signature), caller)


def _record(definition: CallableDefinition, signature: Signature) -> Compiled:
    """The plan that replays the launches of the function, which are recorded now."""
    from bridge.languages.numba_cuda.launcher import with_launchers
    from bridge.languages.numba_cuda.recording import record

    may_launch_nothing = all(0 in output.shape for output in signature.outputs)
    function = with_launchers(definition.launcher)
    recording = record(definition.name, function, array_shapes(signature), local_ordinals(), may_launch_nothing)
    outputs = (*signature.output_sizes, *[(1, 1)] * len(recording.temporaries))
    plan = DevicePlan(definition.name, signature.input_sizes, outputs, recording.launches)
    alive = definition, function, recording.kernels
    return Compiled(recording.content, lambda: Built(plan, alive), scratch=recording.temporaries)


def _check_captured(function: types.FunctionType) -> None:
    """Refuses JAX arrays that a kernel takes from its closure or globals, and traced arrays in the function itself.

    The function may hold an array that has a value, and pass it to a kernel as an argument.

    Raises:
        KernelCompileError: There is such an array.
    """
    for found in captured_arrays(function):
        if found.is_traced or found.compiled:
            code = function.__code__
            raise error_of(function.__name__, f"{code.co_filename}:{code.co_firstlineno}", function, found)


def _without_stream(function: types.FunctionType) -> Callable[..., Any]:
    """A function with the parameters of ``function`` except the stream, which the caller does not pass."""
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    if parameters and parameters[-1].kind is not inspect.Parameter.VAR_POSITIONAL:
        parameters.pop()

    def stand_in(*args: Any) -> None: ...

    stand_in.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    stand_in.__doc__ = function.__doc__
    return stand_in
