"""Makes Numba-CUDA kernels callable from JAX: :func:`numba_cuda_kernel`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bridge.errors import KernelTypeError
from bridge.ffi.built import Built
from bridge.ffi.plans.device import DevicePlan
from bridge.ffi.target import CUDA_PYTHON, Target
from bridge.languages.compiled_kernel import Compiled
from bridge.languages.copying import copied_as_a_call
from bridge.languages.definitions import DEFINITIONS
from bridge.languages.extras import require_cuda
from bridge.languages.language import Standing
from bridge.languages.launch_shape import LaunchShape, check_covers, launch_shape
from bridge.languages.native_language import NativeLanguage
from bridge.languages.numba_cuda.array_parameters import array_launch, array_shapes
from bridge.languages.numba_cuda.cuda_compilation import (
    CudaDefinition,
    code_of,
    compile_kernel,
    images_of,
    load_kernel,
)
from bridge.languages.numba_cuda.thread_numbers import rules_of, source_of
from bridge.languages.wrapper import wrap
from bridge.signature.array_types import Signature
from bridge.source.element_wise import in_place_pairs


@copied_as_a_call()
def numba_cuda_kernel(
    kernel: Callable[..., None],
    outs: Any,
    *,
    grid: int | tuple[int, ...] | None = None,
    block: int | tuple[int, ...] | None = None,
    launch_dims: int | tuple[int, ...] | None = None,
    threads_per_block: int = 256,
    shared_mem: int = 0,
    vmap_method: str | None = None,
    input_output_aliases: Mapping[int, int] | None = None,
    in_place: bool | None = None,
) -> Callable[..., Any]:
    """Makes a Numba-CUDA kernel callable from JAX: launched natively, on XLA's stream, with no Python in the call.

    The kernel is compiled and loaded when JAX traces the call. XLA may record its launches into CUDA graphs.

    Args:
        kernel: A function decorated with ``numba.cuda.jit``, called as ``kernel(input, ..., output, ...)`` with
            C-contiguous device arrays. It writes every element of its outputs. Inputs are read-only.
        outs: Shape and dtype of the results: a ``jax.ShapeDtypeStruct``, or a list or pytree of them; or a function of
            the inputs that returns these, as for :func:`bridge.numba_kernel`.
        grid: Blocks to launch, an int or up to three (x, y, z). Goes with ``block``.
        block: Threads of a block, an int or up to three.
        launch_dims: Threads to launch in all, instead of ``grid`` and ``block``; rounded up to whole blocks.
        threads_per_block: Size of the blocks that ``launch_dims`` is cut into; 16x16 in two dimensions for 256.
        shared_mem: Dynamic shared memory of a block in bytes; more than 48 KiB is asked for where needed.
        vmap_method: As for :func:`bridge.numba_kernel`: by default one call launches the kernel for each element.
        input_output_aliases: Pairs of input and output index that share a buffer; the kernel may write to such inputs.
        in_place: As for :func:`bridge.numba_kernel`.

    Returns:
        A ``jax.jit`` function of the input arrays that returns the results that ``outs`` describes.

    Raises:
        ImportError: numba-cuda is not installed, or there is no NVIDIA GPU.
        ValueError: The launch arguments are incomplete or make no sense; or, when called: they exceed a limit of the
            device, or launch nothing while an output is not empty; or the kernel synchronises its whole grid, and the
            blocks cannot all run at once.
        KernelTypeError: ``kernel`` was not made by ``numba.cuda.jit``; also an ``AssertionError``.
        SignatureError: As for :func:`bridge.numba_kernel`.
        KernelCompileError: When called: Numba cannot compile the kernel for these types.

    Warns:
        UnwrittenOutputWarning: As for :func:`bridge.numba_kernel`.

    A kernel that is compiled with ``debug=True`` may raise exceptions. To read them, each launch goes through Python,
    takes the GIL and waits until the kernel is done, and XLA does not record it. The exception reaches the caller as a
    JAX runtime error that names its type, message, line and thread. Without ``debug=True``, Numba-CUDA ends the thread
    that raises, and nobody learns of it.

    Blocks of a kernel that synchronises its whole grid (``cuda.cg.this_grid().sync()``) are launched cooperatively.

    A launch that fails reaches the caller as a JAX runtime error with the names of the kernel and of CUDA's error. A
    kernel has no derivative of its own; attach one as for :func:`bridge.numba_kernel`.

    Example::

        @cuda.jit
        def add(x, y, out):
            i = cuda.grid(1)
            if i < out.size:
                out[i] = x[i] + y[i]

        add_fn = numba_cuda_kernel(add, jax.ShapeDtypeStruct((1024,), jnp.float32), launch_dims=1024)
    """
    require_cuda()
    definition = define(kernel)
    shape = launch_shape(definition.name, grid, block, launch_dims, threads_per_block, shared_mem)
    return wrap(_language(definition.is_debug), definition, shape, outs, vmap_method, input_output_aliases, in_place)


def define(kernel: Any) -> CudaDefinition:
    """The definition of a kernel.

    Raises:
        KernelTypeError: It was not made by ``numba.cuda.jit``.
    """
    from numba.cuda.dispatcher import CUDADispatcher

    if not isinstance(kernel, CUDADispatcher):
        raise KernelTypeError(
            f"numba_cuda_kernel got {kernel!r} of type {type(kernel).__name__}, expected a function decorated with "
            "numba.cuda.jit."
        )
    is_debug = bool(kernel.targetoptions.get("debug"))
    return DEFINITIONS.define(_language(is_debug), id(kernel), lambda: CudaDefinition.of(kernel))


class _NumbaCuda(NativeLanguage[CudaDefinition, LaunchShape]):
    def check(self, definition: CudaDefinition, options: LaunchShape, signature: Signature) -> None:
        super().check(definition, options, signature)
        check_covers(definition.name, options, signature.outputs)

    def compile(
        self, definition: CudaDefinition, options: LaunchShape, signature: Signature, platform: str
    ) -> Compiled:
        compiled = compile_kernel(definition, signature.arrays)
        in_place = in_place_pairs(
            source_of(definition.dispatcher),
            [array.rank for array in signature.arrays],
            len(signature.inputs),
            rules_of(compiled, options),
        )
        return Compiled(
            code_of(compiled), lambda: self._load(definition, options, signature, compiled), in_place=in_place
        )

    def _load(self, definition: CudaDefinition, options: LaunchShape, signature: Signature, compiled: Any) -> Built:
        launches = []
        if not options.is_empty:
            handles = load_kernel(definition.name, compiled, options)
            launches.append(
                array_launch(definition.name, handles, options, signature.arrays, cooperative=compiled.cooperative)
            )
        plan = DevicePlan(definition.name, signature.input_sizes, signature.output_sizes, launches)
        return Built(plan, compiled, images=lambda: [images_of(compiled, launch.handles) for launch in launches])


class _DebugKernels(_NumbaCuda):
    """Kernels that are compiled with ``debug=True``: Python launches them and raises their exceptions."""

    def target(self, options: LaunchShape, platform: str) -> Target:
        return CUDA_PYTHON

    def _load(self, definition: CudaDefinition, options: LaunchShape, signature: Signature, compiled: Any) -> Built:
        from bridge.languages.numba_cuda.caller import Caller
        from bridge.languages.numba_cuda.debug_launch import debug_launch

        caller = Caller(
            definition.name, debug_launch(definition.name, compiled, options, signature), array_shapes(signature)
        )
        return Built(caller.plan(signature), caller)


DEBUG_LANGUAGE = _DebugKernels(
    "numba_cuda_debug",
    {"cuda": Standing.REGULAR},
    kernel_kind="CUDA kernel",
    wrapper="numba_cuda_kernel",
    compiler="Numba-CUDA",
    options_type=LaunchShape,
)

LANGUAGE = _NumbaCuda(
    "numba_cuda",
    {"cuda": Standing.REGULAR},
    kernel_kind="CUDA kernel",
    wrapper="numba_cuda_kernel",
    compiler="Numba-CUDA",
    options_type=LaunchShape,
)


def _language(is_debug: bool) -> _NumbaCuda:
    return DEBUG_LANGUAGE if is_debug else LANGUAGE
