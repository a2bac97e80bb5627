"""CUDA C++ kernels as JAX operations: :func:`cuda_raw_kernel`."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import msgspec
import numpy as np

from bridge.errors import CudaUnavailableError, KernelCompileError, KernelTypeError, SignatureError
from bridge.ffi.cuda import driver, embedded
from bridge.ffi.cuda.embedded import Image
from bridge.ffi.kernel_call import ATTACH_A_RULE
from bridge.ffi.native.abi import WORD_BYTES
from bridge.ffi.plans.device import DevicePlan, Launch, Patch
from bridge.ffi.target import CUDA, Entry, Target
from bridge.languages.extras import INSTALL_CUDA
from bridge.languages.launch_shape import LaunchShape, check_covers, check_limits, launch_shape
from bridge.languages.wrapper import wrap
from bridge.signature.outputs import check_known_shapes
from bridge.source.content import undefined_kernel

_LANGUAGE = "cuda_raw"


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
        name: Which of its ``__global__`` functions to launch; for a template an instance of it, as ``"add<float>"``.
            The function takes a pointer for each input (to ``const``: JAX's arrays do not change) and each output, and
            then ``scalars``; arrays are C-contiguous. It writes every element of its outputs.
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
        A ``jax.jit`` function of the input arrays that returns what ``outs`` describes.

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
    definition = _define(source, name, _options(name, options))
    if not isinstance(scalars, Sequence):
        raise SignatureError(f"{name}: scalars is {scalars!r}, expected a sequence of NumPy scalars.")
    values = tuple(_scalar(name, index, value) for index, value in enumerate(scalars))
    shape = launch_shape(name, grid, block, launch_dims, threads_per_block, shared_mem)
    return wrap(_Configured(definition, shape, values), outs, vmap_method, input_output_aliases)


def _compiler() -> Any:
    try:
        import cuda.core as core
    except ImportError as error:
        raise CudaUnavailableError(
            f"cuda_raw_kernel compiles CUDA C++ through cuda-core, which does not import ({error}). {INSTALL_CUDA}"
        ) from error
    return core if hasattr(core, "Program") else __import__("cuda.core.experimental", fromlist=["Program"])


def _options(name: str, options: Any) -> tuple[tuple[str, Any], ...]:
    """Compiler options in a form that can be compared: sorted, with tuples in place of lists."""
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


@dataclass(frozen=True)
class _Scalar:
    dtype: str
    content: bytes


def _scalar(name: str, index: int, value: Any) -> _Scalar:
    if not isinstance(value, np.generic) or value.dtype.kind not in "biuf":
        raise SignatureError(
            f"{name}: scalar {index} is {value!r} of type {type(value).__name__}, expected a NumPy scalar, which has "
            "the type of a parameter: np.int32(3), np.float32(0.5). Pass what varies as an array."
        )
    return _Scalar(value.dtype.name, value.tobytes())


@dataclass(frozen=True)
class _Definition:
    """One function of one source, with the options it is compiled with."""

    source: str
    name: str
    options: tuple[tuple[str, Any], ...]

    @functools.cached_property
    def digest(self) -> str:
        return hashlib.sha256(repr((self.source, self.name, self.options)).encode()).hexdigest()

    def compile(self, architecture: str) -> tuple[bytes, str]:
        """The cubin for an architecture, such as ``"sm_90"``, and the function's name in it.

        Raises:
            KernelCompileError: NVRTC refuses the source or the options.
        """
        return _compile(self, architecture)


_definitions: weakref.WeakValueDictionary[str, _Definition] = weakref.WeakValueDictionary()


def _define(source: str, name: str, options: tuple[tuple[str, Any], ...]) -> _Definition:
    definition = _Definition(source, name, options)
    return _definitions.setdefault(definition.digest, definition)


@functools.lru_cache(maxsize=1024)
def _compile(definition: _Definition, architecture: str) -> tuple[bytes, str]:
    core = _compiler()
    try:
        options = core.ProgramOptions(**{"std": "c++17", "arch": architecture, **dict(definition.options)})
        compiled = core.Program(definition.source, "c++", options).compile("cubin", name_expressions=(definition.name,))
    except Exception as error:
        raise KernelCompileError(f"NVRTC cannot compile {definition.name} for {architecture}:\n{error}") from error
    symbol = compiled.symbol_mapping[definition.name]
    return compiled.code, symbol.decode() if isinstance(symbol, bytes) else symbol


class _Described(msgspec.Struct, frozen=True):
    """What a description says after the digest of a function: its launch."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    scalars: tuple[tuple[str, bytes], ...]
    inputs: int
    arrays: tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(frozen=True)
class _Configured:
    """A function and its launch: a :class:`bridge.languages.wrapper.Kernel`."""

    definition: _Definition
    launch: LaunchShape
    scalars: tuple[_Scalar, ...]

    target = CUDA
    source_function = None

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def function(self) -> Callable[..., Any]:
        return _any_arrays

    def code(self, inputs: Sequence[Any], outputs: Sequence[Any], writable: frozenset[int]) -> _Code:
        """The launch on arrays of these shapes and dtypes, compiled when it is lowered."""
        check_known_shapes([*inputs, *outputs], self.name)
        check_covers(self.name, self.launch, outputs)
        arrays = tuple((str(array.dtype), tuple(array.shape)) for array in (*inputs, *outputs))
        return _Code(self, arrays, len(inputs))


def _any_arrays(*arrays: Any) -> None:
    """A kernel in CUDA C++; how many arrays it takes is known when it has been compiled."""


@dataclass(frozen=True)
class _Code:
    """A launch for the types of one call: a :class:`bridge.ffi.kernel_call.Code`."""

    configured: _Configured
    arrays: tuple[tuple[str, tuple[int, ...]], ...]
    input_count: int

    platforms = ("cuda",)
    scratch = ()
    derivative_advice = ATTACH_A_RULE

    def describe(self, platform: str) -> tuple[Target, str]:
        """The target, and the launch as text that is the same in every process."""
        launch = self.configured.launch
        about = _Described(
            launch.grid,
            launch.block,
            launch.shared_bytes,
            tuple((scalar.dtype, scalar.content) for scalar in self.configured.scalars),
            self.input_count,
            self.arrays,
        )
        definition = self.configured.definition
        return CUDA, f"{_LANGUAGE}:{definition.digest} {msgspec.json.encode([definition.name, about]).decode()}"

    def entry(self, platform: str) -> Entry:
        """The function compiled and loaded on each of JAX's local GPUs."""
        _, description = self.describe(platform)
        return CUDA.publish(description, self._build)

    def _build(self) -> tuple[Any, ...]:
        configured, launches = self.configured, []
        images: dict[int, Image] = {}
        if not configured.launch.is_empty:
            ordinals = sorted(device.local_hardware_id for device in jax.local_devices(backend="cuda"))
            handles = [0] * (ordinals[-1] + 1)
            for ordinal in ordinals:
                capability = driver.compute_capability(ordinal)
                content, symbol = configured.definition.compile(f"sm_{capability}")
                images[capability] = Image(capability, symbol, content)
                handles[ordinal] = self._load(content, symbol, ordinal)
            launches.append(self.launch(tuple(handles)))
        sizes = [(len(shape), jnp.dtype(dtype).itemsize) for dtype, shape in self.arrays]
        plan = DevicePlan(configured.name, sizes[: self.input_count], sizes[self.input_count :], launches)
        words, alive = plan.words()
        embed = functools.partial(embedded.write, plan, [images] * len(launches))
        return ctypes.addressof(words), (words, alive, configured.definition), (), embed

    def _load(self, image: bytes, symbol: str, ordinal: int) -> int:
        name, shape = self.configured.name, self.configured.launch
        with driver.current(ordinal):
            handle = driver.load_function(driver.load_kernel(image, symbol))
            taken = driver.parameter_sizes(handle)
            passed = [WORD_BYTES] * len(self.arrays) + [len(scalar.content) for scalar in self.configured.scalars]
            if taken and taken != passed:
                outputs = len(self.arrays) - self.input_count
                raise SignatureError(
                    f"{name} takes parameters of {taken} bytes, but the call passes {passed}: {self.input_count} "
                    f"inputs, {outputs} outputs and {len(self.configured.scalars)} scalars. Pass a pointer for each "
                    "array, and scalars of the parameters' types."
                )
            check_limits(name, shape, driver.limits(handle, ordinal), driver.static_shared_bytes(handle))
            driver.allow_shared_bytes(handle, shape.shared_bytes)
        return handle

    def launch(self, handles: tuple[int, ...]) -> Launch:
        """The launch by function handles: a pointer for each array, then the scalars, each in a word of its own."""
        shape = self.configured.launch
        values = [
            int.from_bytes(scalar.content.ljust(WORD_BYTES, b"\0"), "little") for scalar in self.configured.scalars
        ]
        blob = (*[0] * len(self.arrays), *values)
        return Launch(
            name=self.configured.name,
            handles=handles,
            grid=shape.grid,
            block=shape.block,
            shared_bytes=shape.shared_bytes,
            blob=blob,
            parameters=tuple(WORD_BYTES * word for word in range(len(blob))),
            patches=tuple(Patch(word=index, buffer=index) for index in range(len(self.arrays))),
        )


def _resolve(description: str) -> Entry:
    """The entry for a call that another process described: its source must have been wrapped in this one."""
    head, _, text = description.partition(" ")
    name, about = msgspec.json.decode(text, type=tuple[str, _Described])
    digest = head.partition(":")[2]
    definition = _definitions.get(digest)
    if definition is None:
        raise undefined_kernel("CUDA C++ kernel", name, digest, "cuda_raw_kernel")
    shape = LaunchShape(about.grid, about.block, about.shared_bytes)
    configured = _Configured(definition, shape, tuple(_Scalar(*scalar) for scalar in about.scalars))
    return _Code(configured, about.arrays, about.inputs).entry("cuda")


CUDA.resolve_with(_LANGUAGE, _resolve)
