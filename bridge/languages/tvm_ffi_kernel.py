"""Makes functions of TVM-FFI callable from JAX: :func:`tvm_ffi_kernel`."""

from __future__ import annotations

import ctypes
import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numba
import numpy as np
from numba.core import types

from bridge.compat.cpython import C_FUNCTION
from bridge.compat.tvm_ffi import library, raised
from bridge.errors import KernelTypeError, SignatureError, UnavailableError
from bridge.ffi.native.abi import WORD_BYTES
from bridge.ffi.native.addresses import c_function, keep
from bridge.ffi.native.call_frame import DEVICE_WORD, STREAM_WORD
from bridge.ffi.native.exception_text import create_error
from bridge.ffi.native.object_code import prepared
from bridge.ffi.native.words import call, call2, call4, copy_words, load, stack_words, store
from bridge.ffi.plans.host import HostPlan
from bridge.kernel.arguments import Signature
from bridge.kernel.definitions import DEFINITIONS
from bridge.kernel.language import Compiled, Definition, NativeLanguage
from bridge.kernel.references import key_of_function, place_of
from bridge.kernel.shared_libraries import content_of
from bridge.kernel.wrapper import says_its_call, wrap
from bridge.languages.native import entry
from bridge.languages.native.native_kernel import NativeOptions, host_target, language_for
from bridge.table import LANGUAGES


@functools.partial(says_its_call, is_sent=False)
def tvm_ffi_kernel(
    function: Any,
    outs: Any,
    arguments: Callable[..., Sequence[Any]] | None = None,
    *,
    platform: str = "cpu",
    capturable: bool = False,
    vmap_method: str | None = None,
    input_output_aliases: Mapping[int, int] | None = None,
    has_side_effect: bool = False,
) -> Callable[..., Any]:
    """Makes a function of TVM-FFI callable from JAX, with no Python in the call.

    Libraries of several projects export such functions, and CuTe DSL compiles to them with ``--enable-tvm-ffi``. It
    needs the package ``apache-tvm-ffi``. On CUDA the function finds XLA's stream as the stream of its environment.

    Args:
        function: A ``tvm_ffi.Function``, what ``cute.compile`` returns, or a function ``__tvm_ffi_NAME`` of a library
            that ctypes has loaded. It writes every element of its outputs, and no input.
        outs: Shape and dtype of the results: a ``jax.ShapeDtypeStruct``, or a list or pytree of them; or a function of
            the inputs that returns these, as for :func:`bridge.numba_kernel`.
        arguments: Says what the function is called with: a Python function of the inputs and then the outputs, which
            returns a tuple. It may hold these arrays, which are passed as ``DLTensor*`` (C-contiguous), numbers,
            booleans, None, and ``bridge.STREAM``. By default the inputs and then the outputs.
        platform: ``"cpu"``, or ``"cuda"``: as for :func:`bridge.native_kernel`.
        capturable: Whether XLA may record what the function enqueues into CUDA graphs: as there.
        vmap_method: As for :func:`bridge.numba_kernel`: by default one call loops over the batch in native code.
        input_output_aliases: Pairs of input and output index that share a buffer. The function may then update it.
        has_side_effect: As for :func:`bridge.numba_kernel`.

    Returns:
        A ``jax.jit`` function of the input arrays that returns the results that ``outs`` describes. An error that the
        function raises is the error of the call.

    Raises:
        ImportError: ``apache-tvm-ffi`` is not installed.
        KernelTypeError: ``function`` is no function of TVM-FFI, or ``arguments`` no Python function.
        SignatureError: ``outs`` or another option is malformed; or, when called, ``arguments`` returns something else.

    A kernel has no derivative of its own; attach one as for :func:`bridge.numba_kernel`. A ``tvm_ffi.Function`` exists
    in this process alone, so programs that call it cannot be exported; those with a function of ctypes can. One that is
    made of a Python function must not read its arrays through DLPack, which ends the process in TVM-FFI 0.1.

    Example::

        module = tvm_ffi.load_module("./libadd.so")
        add = tvm_ffi_kernel(module.add_scaled, lambda x, y: x, lambda x, y, out: (x, y, out, 0.5))
        add(jnp.ones(1000), jnp.ones(1000))

    A host function ``launch(stream, x, y, out)`` of CuTe DSL, for vectors of any length::

        length, stream = cute.sym_int(), make_fake_stream(use_tvm_ffi_env_stream=True)
        vectors = [make_fake_compact_tensor(cutlass.Float32, (length,)) for _ in range(3)]
        compiled = cute.compile(launch, stream, *vectors, options="--enable-tvm-ffi")
        add = tvm_ffi_kernel(compiled, lambda x, y: x, platform="cuda")
    """
    tvm, given = _tvm_ffi(), function
    if hasattr(type(function), "__tvm_ffi_object__"):  # of CuTe DSL
        function = function.__tvm_ffi_object__()
    language = language_for("tvm_ffi_kernel", _LANGUAGES, platform, capturable)
    if isinstance(function, tvm.Function):
        handle = function.__chandle__()
        address = c_function(library().TVMFFIFunctionCall) if handle else 0
    elif isinstance(function, C_FUNCTION):
        handle, address = 0, c_function(function)
    else:
        handle, address = 0, 0
    if not address:
        raise KernelTypeError(
            f"tvm_ffi_kernel got {given!r} of type {type(given).__name__}, expected a tvm_ffi.Function that runs here, "
            "or a function __tvm_ffi_NAME of ctypes. Load the library with tvm_ffi.load_module."
        )
    if not callable(arguments or _all_arrays):
        raise KernelTypeError(f"tvm_ffi_kernel got arguments={arguments!r}, expected a function of the arrays.")
    name = getattr(function, "__name__", "").removeprefix("__tvm_ffi_") or "tvm_ffi_function"
    definition = DEFINITIONS.define(
        language,
        (name, handle, address, key_of_function(arguments or _all_arrays)),
        lambda: TvmDefinition(
            name,
            arguments or _all_arrays,
            None,
            address,
            handle,
            (given, function),
            None if handle else content_of(address),
        ),
    )
    options = NativeOptions(capturable)
    return wrap(language, definition, options, outs, vmap_method, input_output_aliases, has_side_effect)


def _all_arrays(*arrays: Any) -> tuple[Any, ...]:
    return arrays


@dataclass(frozen=True, eq=False)
class TvmDefinition(Definition):
    """A function of TVM-FFI; ``function`` is the user's function of the arrays that says what it is called with.

    Attributes:
        address: Where a C function of the type ``TVMFFISafeCallType`` is loaded that calls it.
        handle: Its first argument: an object, or nothing for a function of a library.
        alive: What the user passed, which keeps it loaded.
        content: Identifies its machine code in every process; None if only this process has it.
    """

    address: int = field(repr=False)
    handle: int = field(repr=False)
    alive: Any = field(repr=False)
    content: str | None = field(repr=False)


@dataclass(frozen=True)
class Tensor:
    """Stands for an input or output where a user says what a function is called with. It has no values.

    Attributes:
        index: Its place among the inputs and then the outputs.
        shape: Its extents, without batch dimensions.
        dtype: Its dtype.
    """

    index: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


class _TvmLanguage(NativeLanguage[TvmDefinition, NativeOptions]):
    def compile(
        self, definition: TvmDefinition, options: NativeOptions, signature: Signature, platform: str
    ) -> Compiled:
        packed = _packed(definition, signature, platform == "cuda")

        def load() -> HostPlan:
            native, context = _native(), keep(packed.context(definition, platform == "cuda"))
            return HostPlan(native.address, context=context, alive=(native, definition))

        code = definition.content and f"{definition.content}\n{packed}"
        return Compiled(code, load, target=host_target(options, platform))


LANGUAGE = _TvmLanguage(
    LANGUAGES["tvm_ffi"],
    kernel_kind="TVM-FFI function",
    compiler="TVM-FFI",
    options_type=NativeOptions,
    local_kernels="it is an object of this process. Pass the function __tvm_ffi_NAME of its library, from ctypes.",
)
_LANGUAGES = {"cpu": LANGUAGE, "cuda": replace(LANGUAGE, row=LANGUAGES["tvm_ffi_cuda"])}

# Of tvm/ffi/c_api.h and dlpack.h. A ``TVMFFIAny`` is a type index and a value. A ``DLTensor`` is data, device, rank and
# dtype, the addresses of shape and strides, and an offset.
_KINDS = {type(None): 0, int: 1, bool: 2, float: 3, entry.Stream: 4, Tensor: 7}
_FIRST_OBJECT = 64
_ON_CPU, _ON_CUDA, _COMPLEX, _TENSOR_WORDS = 1, 2, 5, 6
_MAX_WORDS = 4096

(_ADDRESS, _HANDLE, _BLOCK, _SIZE, _ARGUMENTS, _COUNT, _INNER, _PATCHES, _DEVICES, _SET_STREAM, _RELEASE, _RAISED,
    _PAIRS) = range(13)  # fmt: skip


@dataclass(frozen=True)
class _Packed:
    """The arguments of a function as words, which native code copies and completes at each call.

    Attributes:
        words: DLTensors, their shapes and strides, and then the ``TVMFFIAny`` of each argument.
        arguments: Where these begin.
        inner: Words that hold the address of another word: both indices.
        patches: Words that hold an address of a call, and its index among the data of the call.
        devices: Words that hold the type and ordinal of the device.
    """

    words: tuple[int, ...]
    arguments: int
    inner: tuple[tuple[int, int], ...]
    patches: tuple[tuple[int, int], ...]
    devices: tuple[int, ...]

    def context(self, definition: TvmDefinition, on_stream: bool) -> list[int]:
        functions = library()
        pairs = itertools.chain(*((at, WORD_BYTES * to) for at, to in self.inner), *self.patches, self.devices)
        set_stream = c_function(functions.TVMFFIEnvSetStream) if on_stream else 0
        return [
            definition.address, definition.handle, keep(self.words), len(self.words), WORD_BYTES * self.arguments,
            (len(self.words) - self.arguments) // 2, len(self.inner), len(self.patches), len(self.devices), set_stream,
            c_function(functions.TVMFFIObjectDecRef), c_function(_raised), *pairs,
        ]  # fmt: skip


def _packed(definition: TvmDefinition, signature: Signature, on_stream: bool) -> _Packed:
    """The arguments of a call.

    Raises:
        SignatureError: What the user's function returns cannot be passed, or leaves out an output.
    """
    arrays = [Tensor(at, each.extents, np.dtype(each.dtype)) for at, each in enumerate(signature.arrays)]
    given = definition.function(*arrays)
    says = f"{definition.name}: arguments ({place_of(definition.function)})"
    if not isinstance(given, tuple):
        raise SignatureError(f"{says} returned a {type(given).__name__}, expected a tuple of what is passed.")
    for array in arrays[len(signature.inputs) :]:
        if not any(each is array for each in given):
            at = array.index - len(signature.inputs)
            raise SignatureError(f"{says} leaves out output {at}. Return it too, so that the function writes it.")
    words: list[int] = []
    inner, patches, devices, starts = [], [], [], {}
    for array in arrays:
        start = starts[array.index] = len(words)
        rank = len(array.shape)
        strides = [math.prod(array.shape[axis + 1 :]) for axis in range(rank)]
        words += [0, _ON_CPU, rank | _dtype_bits(array.dtype) << 32, 0, 0, 0, *array.shape, *strides]
        inner += [(start + 3, start + _TENSOR_WORDS), (start + 4, start + _TENSOR_WORDS + rank)]
        patches.append((start, array.index))
        devices += [start + 1] if on_stream else []
    arguments = len(words)
    for position, each in enumerate(given):
        value = each.item() if isinstance(each, np.generic) else each
        kind = _KINDS.get(type(value))
        fits = not isinstance(value, int) or -(2**63) <= value < 2**63
        if kind is None or not fits or (value is entry.STREAM and not on_stream):
            raise SignatureError(
                f"{says}: item {position} is {repr(each).splitlines()[0]} of type {type(each).__name__}, expected an "
                "input or output, a number of 64 bits, a boolean or None; on 'cuda' also bridge.STREAM."
            )
        words += [kind, 0]
        if isinstance(value, Tensor):
            inner.append((len(words) - 1, starts[value.index]))
        elif value is entry.STREAM:
            patches.append((len(words) - 1, STREAM_WORD))
        elif value is not None:
            words[-1] = int(np.float64(value).view(np.int64)) if isinstance(value, float) else int(value)
    if len(words) > _MAX_WORDS:
        raise SignatureError(f"{says} describes {len(words)} words of arguments, expected at most {_MAX_WORDS}.")
    return _Packed(tuple(words), arguments, tuple(inner), tuple(patches), tuple(devices))


def _dtype_bits(dtype: np.dtype[Any]) -> int:
    if dtype.kind == "c":  # TVM-FFI has no name for these
        return _COMPLEX | 8 * dtype.itemsize << 8 | 1 << 16
    found = _tvm_ffi().dtype(dtype.name)
    return int(found.type_code) | int(found.bits) << 8 | int(found.lanes) << 16


@functools.cache
def _native() -> Any:
    """The function of a plan: calls a function of TVM-FFI once."""
    return prepared(lambda: numba.cfunc(types.int64(*[types.int64] * 5), error_model="numpy")(_call_once), "tvm_ffi")


def _call_once(frame, buffers, data, batch_rank, context):  # type: ignore[no-untyped-def]
    block, result, former = stack_words(_MAX_WORDS), stack_words(2), stack_words(1)
    copy_words(block, load(context, _BLOCK), load(context, _SIZE))
    at = np.int64(_PAIRS)
    for _ in range(load(context, _INNER)):
        store(block, load(context, at), block + load(context, at + 1))
        at += 2
    for _ in range(load(context, _PATCHES)):
        store(block, load(context, at), load(data, load(context, at + 1)))
        at += 2
    set_stream = load(context, _SET_STREAM)
    device = np.int64(0)
    if set_stream != 0:
        device = load(data, DEVICE_WORD)
        for _ in range(load(context, _DEVICES)):
            store(block, load(context, at), _ON_CUDA | device << 32)
            at += 1
        call4(set_stream, _ON_CUDA, device, load(data, STREAM_WORD), former)
    store(result, 0, 0)
    store(result, 1, 0)
    arguments = block + load(context, _ARGUMENTS)
    status = call4(load(context, _ADDRESS), load(context, _HANDLE), arguments, load(context, _COUNT), result)
    if set_stream != 0:
        call4(set_stream, _ON_CUDA, device, load(former, 0), 0)
    if status & 0xFFFFFFFF != 0:  # the result has 32 bits
        return call2(load(context, _RAISED), frame, status)
    if load(result, 0) & 0xFFFFFFFF >= _FIRST_OBJECT:
        call(load(context, _RELEASE), load(result, 1))
    return 0


@ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
def _raised(frame: int, status: int) -> int:
    """The address of XLA's error for the error that TVM-FFI keeps for this thread."""
    text = raised()
    return create_error(frame, text or f"a TVM-FFI function returned {ctypes.c_int32(status).value} without an error")


def _tvm_ffi() -> Any:
    try:
        import tvm_ffi
    except ImportError as error:
        raise UnavailableError(
            f"tvm_ffi_kernel needs TVM-FFI, which does not import ({error}). {LANGUAGE.row.cure}"
        ) from error
    return tvm_ffi
