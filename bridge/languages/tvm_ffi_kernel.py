"""Makes functions of TVM-FFI callable from JAX: :func:`tvm_ffi_kernel`."""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from llvmlite import binding, ir

from bridge.compat.cpython import C_FUNCTION
from bridge.compat.tvm_ffi import library, raised
from bridge.errors import KernelTypeError, SignatureError
from bridge.ffi.native.abi import WORD_BYTES
from bridge.ffi.native.addresses import c_function, emit_word, keep
from bridge.ffi.native.call_frame import DEVICE_WORD, STREAM_WORD
from bridge.ffi.native.exception_text import create_error
from bridge.kernel.arguments import ArrayType, Signature
from bridge.kernel.definitions import DEFINITIONS
from bridge.kernel.language import Compiled, Definition, NativeLanguage
from bridge.kernel.references import key_of_function
from bridge.kernel.shared_libraries import content_of
from bridge.kernel.wrapper import says_its_call, wrap
from bridge.languages.native import entry as entry_module
from bridge.languages.native.native_kernel import NativeOptions, compiled, language_for
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
    handle, address = 0, 0
    if isinstance(function, tvm.Function):
        handle = function.__chandle__()
        address = c_function(library().TVMFFIFunctionCall) if handle else 0
    elif isinstance(function, C_FUNCTION):
        address = c_function(function)
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


class _TvmLanguage(NativeLanguage[TvmDefinition, NativeOptions]):
    def compile(
        self, definition: TvmDefinition, options: NativeOptions, signature: Signature, platform: str
    ) -> Compiled:
        code = _entry_code(definition, signature, platform == "cuda")
        return compiled(code, definition, options, platform, lambda: keep([definition.address, definition.handle]))


LANGUAGE = _TvmLanguage(
    LANGUAGES["tvm_ffi"],
    compiler="TVM-FFI",
    options_type=NativeOptions,
    local_kernels="it is an object of this process. Pass the function __tvm_ffi_NAME of its library, from ctypes.",
)
_LANGUAGES = {"cpu": LANGUAGE, "cuda": replace(LANGUAGE, row=LANGUAGES["tvm_ffi_cuda"])}

# Of tvm/ffi/c_api.h and dlpack.h. A ``TVMFFIAny`` is a type index and a value. A ``DLTensor`` is data, device, rank and
# dtype, the addresses of shape and strides, and an offset.
_NONE, _INT, _BOOL, _FLOAT, _OPAQUE_POINTER, _TENSOR, _FIRST_OBJECT = 0, 1, 2, 3, 4, 7, 64
_ON_CPU, _ON_CUDA, _COMPLEX, _TENSOR_WORDS = 1, 2, 5, 6
_I32, _I64 = ir.IntType(32), ir.IntType(64)


def _entry_code(definition: TvmDefinition, signature: Signature, on_stream: bool) -> str:
    """LLVM code of the function of a plan whose context are the two words that TVM-FFI calls a function by.

    Raises:
        SignatureError: What the user's function returns cannot be passed, or leaves out an output.
    """
    entry = _TvmEntry(on_stream)
    arrays = [entry.array(index, each) for index, each in enumerate(signature.arrays)]
    given = entry_module.given_by(definition, arrays, len(signature.inputs))
    says = entry_module.said_by(definition)
    words = [word for at, each in enumerate(given) for word in entry.argument(f"{says}: item {at}", each)]
    return entry.call(words)


class _TvmEntry(entry_module.Entry):
    """Calls a function of TVM-FFI, on CUDA with XLA's stream as the one of its environment."""

    def __init__(self, on_stream: bool):
        super().__init__()
        self._on_stream = on_stream
        self._device = self.word(DEVICE_WORD) if on_stream else None

    def array(self, index: int, kind: ArrayType) -> entry_module.Array:
        dtype, rank = np.dtype(kind.dtype), kind.rank
        device = _I64(_ON_CPU)
        if self._device is not None:
            device = self.builder.or_(self.builder.shl(self._device, _I64(32)), _I64(_ON_CUDA))
        strides = [math.prod(kind.extents[axis + 1 :]) for axis in range(rank)]
        shape = self._words([*map(_I64, (*kind.extents, *strides))])
        after = self.builder.add(shape, _I64(WORD_BYTES * rank))
        tensor = self._words([self.word(index), device, _I64(rank | _dtype_bits(dtype) << 32), shape, after, _I64(0)])
        return entry_module.Array(dtype, tuple(map(np.int64, kind.extents)), tensor)

    def argument(self, where: str, given: Any) -> tuple[ir.Value, ir.Value]:
        """The two words of a ``TVMFFIAny``."""
        value = given.item() if isinstance(given, np.generic) else given
        if isinstance(value, entry_module.Array):
            return _I64(_TENSOR), value.pointer
        if value is entry_module.STREAM and self._on_stream:
            return _I64(_OPAQUE_POINTER), self.word(STREAM_WORD)
        if value is None:
            return _I64(_NONE), _I64(0)
        if isinstance(value, float):
            return _I64(_FLOAT), _I64(int(np.float64(value).view(np.int64)))
        if isinstance(value, int) and -(2**63) <= value < 2**63:
            return _I64(_BOOL if isinstance(value, bool) else _INT), _I64(int(value))
        raise SignatureError(
            f"{where} is {repr(given).splitlines()[0]} of type {type(given).__name__}, expected an input or output, a "
            "number of 64 bits, a boolean or None; on 'cuda' also bridge.STREAM."
        )

    def call(self, words: list[ir.Value]) -> str:
        """Emits the call; returns the whole code."""
        builder, arguments = self.builder, self._words(words)
        result, former = self._words([_I64(0)] * 2), self._words([_I64(0)])
        address, handle = (emit_word(builder, self.context, _I64(at)) for at in range(2))
        function = builder.inttoptr(address, ir.FunctionType(_I32, [_I64, _I64, _I32, _I64]).as_pointer())
        if self._device is not None:
            device = builder.trunc(self._device, _I32)
            prototype = ir.FunctionType(_I32, [_I32, _I32, _I64, _I64])
            set_stream = ir.Function(self.module, prototype, "TVMFFIEnvSetStream")
            builder.call(set_stream, [_I32(_ON_CUDA), device, self.word(STREAM_WORD), former])
        status = builder.call(function, [handle, arguments, _I32(len(words) // 2), result])
        if self._device is not None:
            builder.call(set_stream, [_I32(_ON_CUDA), device, emit_word(builder, former, _I64(0)), _I64(0)])
        kind = builder.trunc(emit_word(builder, result, _I64(0)), _I32)
        with builder.if_then(builder.icmp_signed(">=", kind, _I32(_FIRST_OBJECT))):
            release = ir.Function(self.module, ir.FunctionType(_I32, [_I64]), "TVMFFIObjectDecRef")
            builder.call(release, [emit_word(builder, result, _I64(1))])
        return self.finished(status, _RAISED)

    def _words(self, values: list[ir.Value]) -> ir.Value:
        """Emits words on the stack; returns their address."""
        block = self.builder.alloca(_I64, max(1, len(values)))
        for index, value in enumerate(values):
            self.builder.store(value, self.builder.gep(block, [_I64(index)]))
        return self.builder.ptrtoint(block, _I64)


def _dtype_bits(dtype: np.dtype[Any]) -> int:
    if dtype.kind == "c":  # TVM-FFI has no name for these
        return _COMPLEX | 8 * dtype.itemsize << 8 | 1 << 16
    found = _tvm_ffi().dtype(dtype.name)
    return int(found.type_code) | int(found.bits) << 8 | int(found.lanes) << 16


@ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
def _raised(frame: int, status: int) -> int:
    """The address of XLA's error for the error that TVM-FFI keeps for this thread."""
    return create_error(frame, raised() or f"a TVM-FFI function returned {status} without an error")


_RAISED = "bridge_tvm_raised"


@functools.cache
def _tvm_ffi() -> Any:
    try:
        import tvm_ffi
    except ImportError as error:
        raise LANGUAGE.row.unavailable("TVM-FFI", error) from error
    for name in ("TVMFFIEnvSetStream", "TVMFFIObjectDecRef"):
        binding.add_symbol(name, c_function(getattr(library(), name)))
    binding.add_symbol(_RAISED, c_function(_raised))
    return tvm_ffi
