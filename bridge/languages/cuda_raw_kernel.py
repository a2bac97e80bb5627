"""Makes CUDA C++ kernels callable from JAX: :func:`cuda_raw_kernel`."""

from __future__ import annotations

import functools
import hashlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from bridge.cuda.carried_cubins import Cubin, launch_of_words
from bridge.cuda.cubins import CubinLanguage, Launched, Number
from bridge.cuda.includes import header_versions, included_by
from bridge.cuda.launch_shape import check_alignment, launch_shape
from bridge.errors import KernelCompileError, KernelTypeError, SignatureError
from bridge.ffi.native.abi import WORD_BYTES
from bridge.ffi.plans.device import Launch, Patch
from bridge.kernel.arguments import Signature
from bridge.kernel.definitions import DEFINITIONS
from bridge.kernel.language import CPU_DTYPES, Compiled, Definition
from bridge.kernel.wrapper import says_its_call, wrap
from bridge.table import LANGUAGES


@says_its_call
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
    alignment: int = 1,
    options: Mapping[str, Any] | None = None,
    vmap_method: str | None = None,
    input_output_aliases: Mapping[int, int] | None = None,
    has_side_effect: bool = False,
) -> Callable[..., Any]:
    """Makes a kernel in CUDA C++ callable from JAX: compiled by NVRTC, launched natively on XLA's stream.

    It is compiled for each GPU of the process when JAX lowers the call. XLA may record its launches into CUDA graphs.
    A function that synchronises its whole grid (``cooperative_groups::this_grid().sync()``) is launched cooperatively.

    Args:
        source: CUDA C++. It may include CUDA's own headers and CCCL (``cuda_fp16.h``, ``cooperative_groups.h``,
            ``cuda/std/...``, ``cub/...``), and files in folders that the option ``include_path`` names. The kernel is
            identified by the content that these files have now.
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
        alignment: Bytes of which the address of each array must be a multiple: 16 for a kernel that reads ``float4``.
            XLA may place arrays at other addresses, and so may a batch of short rows. Such a call is then an error,
            where it would end the process.
        options: Fields of ``cuda.core.ProgramOptions``, such as ``{"use_fast_math": True}``.
        vmap_method: As for :func:`bridge.numba_kernel`: by default one call launches the kernel for each element.
        input_output_aliases: Pairs of input and output index that share a buffer. The kernel's pointers to it must then
            not be ``__restrict__``.
        has_side_effect: As for :func:`bridge.numba_kernel`.

    Returns:
        A ``jax.jit`` function of the input arrays that returns the results that ``outs`` describes.

    Raises:
        ImportError: The package cuda-core is not installed.
        KernelTypeError: ``source`` or ``name`` is no string.
        SignatureError: A scalar has no fixed type, or ``options`` is no mapping; when lowered: the function takes other
            parameters.
        ValueError: The launch arguments are incomplete or make no sense, or exceed a limit of the device.
        KernelCompileError: When lowered: NVRTC cannot compile the source, or it has no such function, or a file that
            it includes has changed.

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
    cpp_options = CppOptions(shape, check_alignment(name, alignment), values)
    return wrap(LANGUAGE, definition, cpp_options, outs, vmap_method, input_output_aliases, has_side_effect)


class CppOptions(Launched, frozen=True):
    """How a function is launched.

    Attributes:
        scalars: The parameters after the arrays.
    """

    scalars: tuple[Number, ...] = ()


class MachineCode(NamedTuple):
    """A function that is compiled for one architecture.

    Attributes:
        content: A cubin.
        symbol: The function's name in it.
        is_cooperative: Whether the function synchronises its whole grid.
    """

    content: bytes
    symbol: str
    is_cooperative: bool


@dataclass(frozen=True, eq=False)
class CppDefinition(Definition):
    """One function of one source.

    Attributes:
        source: The source.
        options: The options to compile it with.
        code: Everything that the compiler reads, see :func:`_code`.
    """

    source: str = field(repr=False)
    options: tuple[tuple[str, Any], ...]
    code: str | None = field(repr=False)

    def compile(self, architecture: str) -> MachineCode:
        """The machine code for an architecture, such as ``"sm_90"``.

        Raises:
            KernelCompileError: NVRTC refuses the source or the options, or a file that the source includes has changed.
        """
        return self.compiled(architecture, lambda: _compile(self, architecture))


def define(source: str, name: str, options: tuple[tuple[str, Any], ...]) -> CppDefinition:
    """The definition of a function of a source that is compiled with these options."""
    code = _code(source, name, options)
    content = hashlib.sha256(repr((source, name, options, code)).encode()).hexdigest()
    return DEFINITIONS.define(LANGUAGE, content, lambda: CppDefinition(name, _any_arrays, None, source, options, code))


_PLACES = ("include_path", "pre_include", "name")
"""Options that name files. The content of the files counts, and not where they are."""


def _code(source: str, name: str, options: tuple[tuple[str, Any], ...]) -> str | None:
    """Everything that the compiler reads; None if only the compiler knows which files these are."""
    given = dict(options)
    folders = _listed(given.get("include_path"))
    first = "".join(f'#include "{file}"\n' for file in _listed(given.get("pre_include")))
    here = os.path.dirname(given.get("name") or "") or os.curdir
    versions = functools.partial(header_versions, "cuda-core")
    included = included_by(first + source, [here, *folders, *_toolkit_folders()], versions)
    passed = tuple((option, value) for option, value in options if option not in _PLACES)
    return included and repr((source, name, passed, included))


def _listed(value: Any) -> tuple[str, ...]:
    return tuple(map(os.fspath, (value,) if isinstance(value, str | os.PathLike) else value or ()))


@functools.cache
def _toolkit_folders() -> tuple[str, ...]:
    """The folders of the headers of CUDA and CCCL that are installed: NVRTC itself brings only a few.

    The packages of CUDA 13 have the headers of ``<mma.h>`` in a package of their own. Where it is missing, the toolkit
    of the machine has them.
    """
    from cuda.pathfinder import find_nvidia_header_directory as find

    folders = [folder for folder in map(find, ("cudart", "cccl")) if folder is not None]
    if not any(os.path.isdir(os.path.join(folder, "crt")) for folder in folders):
        home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH") or "/usr/local/cuda"
        folders.append(os.path.join(home, "include"))
    return tuple(folders)


def _any_arrays(*arrays: Any) -> None:
    """A kernel in CUDA C++. The number of its arrays is known only after it is compiled."""


DTYPES = (
    *CPU_DTYPES, "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2",
    "float8_e5m2fnuz", "float8_e8m0fnu",
)  # fmt: skip
"""Names of the dtypes whose elements are whole bytes. XLA packs two elements of int4 into one byte on GPUs."""


class _CudaCpp(CubinLanguage[CppDefinition, CppOptions]):
    def compile(self, definition: CppDefinition, options: CppOptions, signature: Signature, platform: str) -> Compiled:
        def cubin(capability: int) -> Cubin:
            code = definition.compile(f"sm_{capability}")
            return Cubin(code.content, code.symbol, launch_of(definition.name, options, signature, code.is_cooperative))

        return self.compiled(definition, options, definition.code, cubin, options.alignments(signature))


LANGUAGE = _CudaCpp(
    LANGUAGES["cuda_raw"],
    compiler="NVRTC",
    options_type=CppOptions,
    dtypes=DTYPES,
    compiles_when_traced=False,
)


def launch_of(name: str, options: CppOptions, signature: Signature, cooperative: bool) -> Launch:
    """The launch of a function: a pointer for each array, then the scalars, one word each."""
    count = len(signature.arrays)
    values = [scalar.word for scalar in options.scalars]
    sizes = (*[WORD_BYTES] * count, *(scalar.size for scalar in options.scalars))
    patches = [Patch(word=index, buffer=index) for index in range(count)]
    return launch_of_words(name, options.shape, [*[0] * count, *values], patches, cooperative=cooperative, sizes=sizes)


def _scalar(name: str, index: int, value: Any) -> Number:
    if not isinstance(value, np.generic) or value.dtype.kind not in "biuf":
        raise SignatureError(
            f"{name}: scalar {index} is {value!r} of type {type(value).__name__}, expected a NumPy scalar, which has "
            "the type of a parameter: np.int32(3), np.float32(0.5). Pass what varies as an array."
        )
    return Number.of(f"scalar {index}", value)


def _compile(definition: CppDefinition, architecture: str) -> MachineCode:
    try:
        program, compiled = _by_nvrtc(definition, architecture)
        ptx = _ptx(program)
    except Exception as error:
        missing = re.search(r'cannot open source file "([^"]+)"', str(error))
        cure = (
            f"\n{missing[1]} is in no folder that NVRTC looks in. Headers of CUDA and CCCL come with the packages "
            "nvidia-cuda-runtime, nvidia-cuda-crt (crt/mma.h) and nvidia-cuda-cccl, or with CUDA's toolkit in "
            "CUDA_HOME; name the folder of other files by options={'include_path': ...}."
            if missing
            else ""
        )
        raise KernelCompileError(
            f"NVRTC cannot compile {definition.name} for {architecture}:\n{error}{cure}"
        ) from error
    if _code(definition.source, definition.name, definition.options) != definition.code:
        raise KernelCompileError(
            f"a file that {definition.name} includes has changed since the kernel was wrapped, and a kernel is "
            "identified by what it was wrapped with. Call cuda_raw_kernel again."
        )
    symbol = compiled.symbol_mapping[definition.name]
    symbol = symbol.decode() if isinstance(symbol, bytes) else symbol
    return MachineCode(compiled.code, symbol, synchronises_grid(ptx, symbol))


def _by_nvrtc(definition: CppDefinition, architecture: str) -> tuple[Any, Any]:
    """The program, and its machine code.

    Where there is a driver, NVRTC keeps what it compiles in the driver's cache, and finds it again by the code before
    it is optimised: kernels that differ in ``ftz`` or ``fma`` alone get one another's machine code (NVRTC 13.0).
    """
    core, given = _compiler(), dict(definition.options)
    folders = (*_listed(given.pop("include_path", None)), *_toolkit_folders())
    options = {"std": "c++17", "arch": architecture, "include_path": folders, **given}

    def compiled(**options: Any) -> tuple[Any, Any]:
        program = core.Program(definition.source, "c++", core.ProgramOptions(**options))
        return program, program.compile("cubin", name_expressions=(definition.name,))

    try:
        return compiled(**{"no_cache": True, **options})
    except Exception as error:
        if not re.search("no[-_]cache", str(error)):
            raise
        return compiled(**options)  # an old NVRTC has no cache, and does not know the option


def _ptx(program: Any) -> str:
    """The PTX that NVRTC made on the way to the machine code."""
    from cuda.bindings import nvrtc

    handle = int(program.handle)
    status, size = nvrtc.nvrtcGetPTXSize(handle)
    content = bytes(size)
    if status == nvrtc.nvrtcResult.NVRTC_SUCCESS:
        (status,) = nvrtc.nvrtcGetPTX(handle, content)
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise RuntimeError(f"NVRTC gives no PTX, by which to see whether the grid is synchronised: {status.name}")
    return content.decode("utf-8", "replace")


_GRID_BARRIER = re.compile(r"%envreg[12]\b|\bcudaCG")
"""The registers that hold the barrier of a cooperative launch, and the functions that read them."""


def synchronises_grid(ptx: str, symbol: str) -> bool:
    """Whether a function uses the barrier of the whole grid. What it calls may be any function of the source."""
    ptx = re.sub(r"//.*", "", ptx)
    entry = re.search(rf"\.entry\s+{re.escape(symbol)}\b.*?^\}}", ptx, re.MULTILINE | re.DOTALL)
    body = ptx if entry is None or re.search(r"\bcall\b", entry[0]) else entry[0]
    return _GRID_BARRIER.search(body) is not None


def _compiler() -> Any:
    try:
        import cuda.core as core
    except ImportError as error:
        raise LANGUAGE.row.unavailable("cuda-core", error) from error
    return core


def _compiler_options(name: str, options: Any) -> tuple[tuple[str, Any], ...]:
    """Compiler options in a form that can be compared: sorted, with tuples instead of lists."""
    try:
        given = sorted(dict(options or {}).items())
        values = tuple((str(key), tuple(value) if isinstance(value, list) else value) for key, value in given)
        hash(values)
    except (TypeError, ValueError) as error:
        raise SignatureError(
            f"{name}: options is {options!r}, expected a mapping from fields of cuda.core.ProgramOptions to "
            "values that are hashable: numbers, strings, lists of them."
        ) from error
    return values
