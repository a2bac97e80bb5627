"""Makes CUDA C++ kernels callable from JAX: :func:`cuda_raw_kernel`."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from bridge.errors import CudaUnavailableError, KernelCompileError, KernelTypeError, SignatureError
from bridge.ffi.built import Built
from bridge.ffi.cuda import driver
from bridge.ffi.cuda.embedded import Image
from bridge.ffi.cuda.ordinals import load_everywhere
from bridge.ffi.native.abi import WORD_BYTES
from bridge.ffi.plans.device import DevicePlan, Launch, Patch
from bridge.languages.compiled_kernel import Compiled
from bridge.languages.copying import copied_as_a_call
from bridge.languages.definitions import DEFINITIONS
from bridge.languages.extras import INSTALL_CUDA
from bridge.languages.language import Standing
from bridge.languages.launch_shape import LaunchShape, check_covers, check_limits, launch_shape
from bridge.languages.native_language import Definition, NativeLanguage
from bridge.languages.wrapper import wrap
from bridge.signature.array_types import Signature


@copied_as_a_call()
def cuda_raw_kernel(
    source: str,
    name: str,
    outs: Any,
    *,
    grid: int | tuple[int, ...] | None = None,
    block: int | tuple[int, ...] | None = None,
    launch_dims: int | tuple[int, ...] | None = None,
    threads_per_block: int = 256,
    shared_mem: int = 0,
    scalars: Sequence[Any] = (),
    options: Mapping[str, Any] | None = None,
    vmap_method: str | None = None,
    input_output_aliases: Mapping[int, int] | None = None,
) -> Callable[..., Any]:
    """Makes a kernel in CUDA C++ callable from JAX: compiled by NVRTC, launched natively on XLA's stream.

    It is compiled for each GPU of the process when JAX lowers the call. XLA may record its launches into CUDA graphs.

    Args:
        source: CUDA C++. It may include CUDA's own headers.
        name: The ``__global__`` function to launch; for a template an instance of it, such as ``"add<float>"``. The
            function takes a pointer for each input (to ``const``: JAX's arrays do not change) and each output, and then
            ``scalars``; arrays are C-contiguous. It writes every element of its outputs.
        outs: Shape and dtype of the results: a ``jax.ShapeDtypeStruct``, or a list or pytree of them; or a function of
            the inputs that returns these, as for :func:`bridge.numba_kernel`.
        grid: Blocks to launch, an int or up to three (x, y, z). Goes with ``block``.
        block: Threads of a block, an int or up to three.
        launch_dims: Threads to launch in all, instead of ``grid`` and ``block``; rounded up to whole blocks.
        threads_per_block: Size of the blocks that ``launch_dims`` is cut into.
        shared_mem: Dynamic shared memory of a block in bytes.
        scalars: Values that follow the arrays, with the types of the parameters: NumPy scalars, as ``np.int32(n)``.
        options: Fields of ``cuda.core.ProgramOptions``, such as ``{"use_fast_math": True}``.
        vmap_method: As for :func:`bridge.numba_kernel`: by default one call launches the kernel for each element.
        input_output_aliases: Pairs of input and output index that share a buffer.

    Returns:
        A ``jax.jit`` function of the input arrays that returns the results that ``outs`` describes.

    Raises:
        ImportError: The package cuda-core is not installed.
        KernelTypeError: ``source`` or ``name`` is no string.
        SignatureError: A scalar has no fixed type, or ``options`` is no mapping; when lowered: the function takes other
            parameters.
        ValueError: The launch arguments are incomplete or make no sense, or exceed a limit of the device.
        KernelCompileError: When lowered: NVRTC cannot compile the source, or it has no such function.

    A kernel has no derivative of its own; attach one as for :func:`bridge.numba_kernel`.

    Example::

        source = '''
        template <typename T>
        __global__ void scale(const T* x, T* out, T factor, int n) {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) out[i] = factor * x[i];
        }'''
        scale = cuda_raw_kernel(
            source, "scale<float>", jax.ShapeDtypeStruct((1024,), jnp.float32), launch_dims=1024,
            scalars=(np.float32(2), np.int32(1024)),
        )
    """
    if not isinstance(source, str) or not isinstance(name, str) or not name:
        raise KernelTypeError(f"cuda_raw_kernel got the source {source!r} and the name {name!r}, expected two strings.")
    _compiler()
    definition = define(source, name, _compiler_options(name, options))
    if not isinstance(scalars, Sequence):
        raise SignatureError(f"{name}: scalars is {scalars!r}, expected a sequence of NumPy scalars.")
    values = tuple(_scalar(name, index, value) for index, value in enumerate(scalars))
    shape = launch_shape(name, grid, block, launch_dims, threads_per_block, shared_mem)
    return wrap(LANGUAGE, definition, CppOptions(shape, values), outs, vmap_method, input_output_aliases)


class Scalar(msgspec.Struct, frozen=True):
    """A value that follows the arrays of a launch.

    Attributes:
        dtype: Name of its dtype.
        content: Its memory.
    """

    dtype: str
    content: bytes


class CppOptions(msgspec.Struct, frozen=True):
    """How a function is launched.

    Attributes:
        shape: Grid, block and shared memory.
        scalars: The parameters after the arrays.
    """

    shape: LaunchShape
    scalars: tuple[Scalar, ...]


@dataclass(frozen=True, eq=False)
class CppDefinition(Definition):
    """One function of one source.

    Attributes:
        source: The source.
        options: The options to compile it with.
        digest: Identifies the other attributes.
    """

    source: str = field(repr=False)
    options: tuple[tuple[str, Any], ...]
    digest: str

    def compile(self, architecture: str) -> tuple[bytes, str]:
        """The cubin for an architecture, such as ``"sm_90"``, and the function's name in it.

        Raises:
            KernelCompileError: NVRTC refuses the source or the options.
        """
        return _compile(self, architecture)


def define(source: str, name: str, options: tuple[tuple[str, Any], ...]) -> CppDefinition:
    """The definition of a function of a source that is compiled with these options."""
    digest = hashlib.sha256(repr((source, name, options)).encode()).hexdigest()
    return DEFINITIONS.define(LANGUAGE, digest, lambda: CppDefinition(name, _any_arrays, None, source, options, digest))


def _any_arrays(*arrays: Any) -> None:
    """A kernel in CUDA C++. The number of its arrays is known only after it is compiled."""


class _CudaCpp(NativeLanguage[CppDefinition, CppOptions]):
    def check(self, definition: CppDefinition, options: CppOptions, signature: Signature) -> None:
        super().check(definition, options, signature)
        check_covers(definition.name, options.shape, signature.outputs)

    def compile(self, definition: CppDefinition, options: CppOptions, signature: Signature, platform: str) -> Compiled:
        return Compiled(definition.digest, lambda: self._load(definition, options, signature))

    def _load(self, definition: CppDefinition, options: CppOptions, signature: Signature) -> Built:
        images: dict[int, Image] = {}

        def load(ordinal: int) -> int:
            capability = driver.compute_capability(ordinal)
            content, symbol = definition.compile(f"sm_{capability}")
            images[capability] = Image(capability, symbol, content)
            return _load(definition.name, content, symbol, options, signature, ordinal)

        launches = []
        if not options.shape.is_empty:
            launches.append(launch_of(definition.name, load_everywhere(load), options, signature))
        plan = DevicePlan(definition.name, signature.input_sizes, signature.output_sizes, launches)
        return Built(plan, definition, images=lambda: [images] * len(launches))


LANGUAGE = _CudaCpp(
    "cuda_raw",
    {"cuda": Standing.REGULAR},
    kernel_kind="CUDA C++ kernel",
    wrapper="cuda_raw_kernel",
    compiler="NVRTC",
    options_type=CppOptions,
    compiles_when_traced=False,
)


def launch_of(name: str, handles: tuple[int, ...], options: CppOptions, signature: Signature) -> Launch:
    """The launch of a function with these handles: a pointer for each array, then the scalars, one word each."""
    array_count = len(signature.arrays)
    values = [int.from_bytes(scalar.content.ljust(WORD_BYTES, b"\0"), "little") for scalar in options.scalars]
    blob = (*[0] * array_count, *values)
    return Launch(
        name=name,
        handles=handles,
        grid=options.shape.grid,
        block=options.shape.block,
        shared_bytes=options.shape.shared_bytes,
        blob=blob,
        parameters=tuple(WORD_BYTES * word for word in range(len(blob))),
        patches=tuple(Patch(word=index, buffer=index) for index in range(array_count)),
    )


def _load(name: str, image: bytes, symbol: str, options: CppOptions, signature: Signature, ordinal: int) -> int:
    """The function's handle on a device.

    Raises:
        SignatureError: The function takes other parameters.
        LaunchError: The launch is over a limit of the device.
    """
    with driver.current(ordinal):
        handle = driver.load_function(driver.load_kernel(image, symbol))
        taken = driver.parameter_sizes(handle)
        passed = [WORD_BYTES] * len(signature.arrays) + [len(scalar.content) for scalar in options.scalars]
        if taken and taken != passed:
            raise SignatureError(
                f"{name} takes parameters of {taken} bytes, but the call passes {passed}: {len(signature.inputs)} "
                f"inputs, {len(signature.outputs)} outputs and {len(options.scalars)} scalars. Pass a pointer for each "
                "array, and scalars of the parameters' types."
            )
        check_limits(name, options.shape, driver.limits(handle, ordinal), driver.static_shared_bytes(handle))
        driver.allow_shared_bytes(handle, options.shape.shared_bytes)
    return handle


def _scalar(name: str, index: int, value: Any) -> Scalar:
    if not isinstance(value, np.generic) or value.dtype.kind not in "biuf":
        raise SignatureError(
            f"{name}: scalar {index} is {value!r} of type {type(value).__name__}, expected a NumPy scalar, which has "
            "the type of a parameter: np.int32(3), np.float32(0.5). Pass what varies as an array."
        )
    return Scalar(value.dtype.name, value.tobytes())


@functools.lru_cache(maxsize=1024)
def _compile(definition: CppDefinition, architecture: str) -> tuple[bytes, str]:
    core = _compiler()
    try:
        options = core.ProgramOptions(**{"std": "c++17", "arch": architecture, **dict(definition.options)})
        compiled = core.Program(definition.source, "c++", options).compile("cubin", name_expressions=(definition.name,))
    except Exception as error:
        raise KernelCompileError(f"NVRTC cannot compile {definition.name} for {architecture}:\n{error}") from error
    symbol = compiled.symbol_mapping[definition.name]
    return compiled.code, symbol.decode() if isinstance(symbol, bytes) else symbol


def _compiler() -> Any:
    try:
        import cuda.core as core
    except ImportError as error:
        raise CudaUnavailableError(
            f"cuda_raw_kernel compiles CUDA C++ through cuda-core, which does not import ({error}). {INSTALL_CUDA}"
        ) from error
    return core if hasattr(core, "Program") else __import__("cuda.core.experimental", fromlist=["Program"])


def _compiler_options(name: str, options: Any) -> tuple[tuple[str, Any], ...]:
    """Compiler options in a form that can be compared: sorted, with tuples instead of lists."""
    if not isinstance(options or {}, Mapping) or not all(isinstance(option, str) for option in options or {}):
        raise SignatureError(
            f"{name}: options is {options!r}, expected a mapping from fields of cuda.core.ProgramOptions to values."
        )
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in (options or {}).items()}
    try:
        hash(tuple(values.values()))
    except TypeError as error:
        raise SignatureError(
            f"{name}: options is {options!r}, expected values that are hashable: numbers, strings, lists of them."
        ) from error
    return tuple(sorted(values.items(), key=lambda item: item[0]))
