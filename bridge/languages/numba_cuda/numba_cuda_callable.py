"""Makes Python functions that launch Numba-CUDA kernels callable from JAX: :func:`numba_cuda_callable`."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from bridge.cuda.cubins import of_arrays
from bridge.errors import KernelTypeError
from bridge.ffi.cuda.devices import local_ordinals
from bridge.ffi.plans.device import DevicePlan
from bridge.ffi.plans.host import HostPlan
from bridge.ffi.target import CUDA_HOST
from bridge.kernel.arguments import Signature, parameter_names
from bridge.kernel.definitions import DEFINITIONS
from bridge.kernel.language import CPU_DTYPES, Compiled, Definition, NativeLanguage
from bridge.kernel.wrapper import says_its_call, wrap
from bridge.languages.numba_cuda.array_parameters import array_shapes
from bridge.table import LANGUAGES, require_cuda


@says_its_call
def numba_cuda_callable(
    func: Callable[..., None],
    outs: Any,
    *,
    replay: bool = False,
    vmap_method: str | None = None,
    input_output_aliases: Mapping[int, int] | None = None,
    has_side_effect: bool = False,
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
        vmap_method: As for :func:`bridge.numba_kernel`: by default one call goes through the elements of the batch. If
            temporaries are replayed, there is one call for each element, so that they share the memory of one.
        input_output_aliases: Pairs of input and output index that share a buffer; ``func`` may write to such an input.
        has_side_effect: As for :func:`bridge.numba_kernel`.

    Returns:
        A ``jax.jit`` function of the input arrays that returns the results that ``outs`` describes.

    Raises:
        ImportError: numba-cuda is not installed, or there is no NVIDIA GPU.
        KernelTypeError: ``func`` is not a Python function.
        SignatureError: As for :func:`bridge.numba_kernel`.
        RecordingError: With ``replay=True``, when called: ``func`` synchronised, copied, used another stream, launched
            a kernel that is compiled with ``debug=True``, or raised. It does not matter where it did so, nor whether it
            caught the error.

    An exception in ``func`` reaches the caller as a JAX runtime error with its type and message. The function has no
    derivative; attach one as for :func:`bridge.numba_kernel`.
    """
    require_cuda()
    if not isinstance(func, types.FunctionType):
        raise KernelTypeError(
            f"numba_cuda_callable got {func!r} of type {type(func).__name__}, expected a Python function that takes "
            "the inputs, the outputs and a stream. For one kernel decorated with numba.cuda.jit use numba_cuda_kernel."
        )
    definition = DEFINITIONS.define(LANGUAGE, id(func), lambda: Definition(func.__name__, _without_stream(func), func))
    return wrap(
        LANGUAGE, definition, CallableOptions(bool(replay)), outs, vmap_method, input_output_aliases, has_side_effect
    )


class CallableOptions(msgspec.Struct, frozen=True):
    """How a callable runs.

    Attributes:
        replay: Record its launches once, when a call is traced, and replay them natively; if not, run it at each call.
    """

    replay: bool


class _Callables(NativeLanguage[Definition, CallableOptions]):
    def compile(
        self, definition: Definition, options: CallableOptions, signature: Signature, platform: str
    ) -> Compiled:
        if options.replay:
            return _record(definition, signature)

        def load() -> HostPlan:
            """The plan that runs the function at each call."""
            from bridge.languages.numba_cuda.caller import Caller

            assert definition.source_function is not None
            return Caller(definition.name, definition.source_function, array_shapes(signature)).plan()

        return Compiled(None, load, target=CUDA_HOST)  # a Python function belongs to its process


LANGUAGE = _Callables(
    LANGUAGES["numba_cuda_callable"],
    compiler="Numba-CUDA",
    options_type=CallableOptions,
    dtypes=CPU_DTYPES,
)


def _record(definition: Definition, signature: Signature) -> Compiled:
    """The plan that replays the launches of the function, which are recorded now."""
    from bridge.languages.numba_cuda.recording import record

    may_launch_nothing = all(0 in output.shape for output in signature.outputs)
    function, shapes = definition.source_function, array_shapes(signature)
    assert function is not None
    recording = record(definition.name, function, shapes, local_ordinals()[0], may_launch_nothing)
    plan = DevicePlan(recording.launches, alive=(definition, recording.alive))
    return Compiled(recording.content, lambda: plan, scratch=recording.temporaries)


def _without_stream(function: types.FunctionType) -> Callable[..., Any]:
    """A function with the parameters of ``function`` except the stream, which the caller does not pass."""
    names, any_number = parameter_names(function)
    return function if any_number else of_arrays(function, names[:-1])
