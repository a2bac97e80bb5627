"""Makes Numba-CUDA kernels callable from JAX: :func:`numba_cuda_kernel`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from bridge.cuda.carried_cubins import Cubin
from bridge.cuda.cubins import CubinLanguage, Launched
from bridge.cuda.launch_shape import check_alignment, launch_shape
from bridge.errors import KernelTypeError
from bridge.ffi.cuda import driver
from bridge.ffi.cuda.devices import load_everywhere, local_ordinals
from bridge.ffi.plans.host import HostPlan
from bridge.ffi.target import CUDA_HOST
from bridge.kernel.arguments import Signature
from bridge.kernel.definitions import DEFINITIONS
from bridge.kernel.language import CPU_DTYPES, Compiled
from bridge.kernel.wrapper import says_its_call, wrap
from bridge.languages.numba_cuda.array_parameters import array_launch, array_shapes
from bridge.languages.numba_cuda.cuda_compilation import (
    CudaDefinition,
    code_of,
    compile_kernel,
    load_kernel,
    machine_code,
)
from bridge.languages.numba_cuda.mlir import check_threads, is_mlir, require_mlir
from bridge.languages.numba_cuda.mlir import compile_kernel as mlir_kernel
from bridge.table import LANGUAGES, require_cuda


@says_its_call
def numba_cuda_kernel(
    kernel: Callable[..., None],
    outs: Any,
    *,
    grid: int | tuple[int, ...] | None = None,
    block: int | tuple[int, ...] | None = None,
    launch_dims: int | tuple[int, ...] | None = None,
    threads_per_block: int = 256,
    shared_mem: int = 0,
    alignment: int = 1,
    vmap_method: str | None = None,
    input_output_aliases: Mapping[int, int] | None = None,
    has_side_effect: bool = False,
) -> Callable[..., Any]:
    """Makes a Numba-CUDA kernel callable from JAX: launched natively, on XLA's stream, with no Python in the call.

    The kernel is compiled and loaded when JAX traces the call. XLA may record its launches into CUDA graphs.

    Args:
        kernel: A function decorated with ``numba.cuda.jit``, or with ``numba_cuda_mlir.cuda.jit`` of Numba-CUDA's
            successor. It is called as ``kernel(input, ..., output, ...)`` with C-contiguous device arrays. It writes
            every element of its outputs. Inputs are read-only.
        outs: Shape and dtype of the results: a ``jax.ShapeDtypeStruct``, or a list or pytree of them; or a function of
            the inputs that returns these, as for :func:`bridge.numba_kernel`.
        grid: Blocks to launch, an int or up to three (x, y, z). Goes with ``block``.
        block: Threads of a block, an int or up to three.
        launch_dims: Threads to launch in all, instead of ``grid`` and ``block``; rounded up to whole blocks.
        threads_per_block: Size of the blocks that ``launch_dims`` is cut into; 16x16 in two dimensions for 256.
        shared_mem: Dynamic shared memory of a block in bytes; more than 48 KiB is asked for where needed.
        alignment: Bytes of which the address of each array must be a multiple: 16 for a kernel that loads vectors of 16
            bytes without asking whether they are aligned. XLA may place arrays at other addresses, and so may a batch
            of short rows. Such a call is then an error, where it would end the process.
        vmap_method: As for :func:`bridge.numba_kernel`: by default one call launches the kernel for each element.
        input_output_aliases: Pairs of input and output index that share a buffer; the kernel may write to such inputs.
        has_side_effect: As for :func:`bridge.numba_kernel`.

    Returns:
        A ``jax.jit`` function of the input arrays that returns the results that ``outs`` describes.

    Raises:
        ImportError: The kernel's compiler is not installed, or there is no NVIDIA GPU.
        ValueError: The launch arguments are incomplete or make no sense; or, when called: they exceed a limit of the
            device, or launch nothing while an output is not empty; or the kernel synchronises its whole grid, and the
            blocks cannot all run at once.
        KernelTypeError: ``kernel`` was made by neither of them; also an ``AssertionError``.
        SignatureError: As for :func:`bridge.numba_kernel`.
        KernelCompileError: When called: Numba cannot compile the kernel for these types.

    A kernel that is compiled with ``debug=True`` may raise exceptions. To read them, each launch goes through Python,
    takes the GIL and waits until the kernel is done, and XLA does not record it. The exception reaches the caller as a
    JAX runtime error that names its type, message, line and thread. Without ``debug=True``, Numba-CUDA ends the thread
    that raises, and nobody learns of it. numba-cuda-mlir does not even end it, and ``debug=True`` is refused there.

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
    if is_mlir(kernel):
        require_mlir(kernel)
    else:
        require_cuda()
    definition = define(kernel)
    shape = launch_shape(definition.name, grid, block, launch_dims, threads_per_block, shared_mem)
    # With debug=True a kernel tells the exceptions that it raises.
    raises = bool(definition.dispatcher.targetoptions.get("debug"))
    options = CudaOptions(shape, check_alignment(definition.name, alignment), raises)
    return wrap(LANGUAGE, definition, options, outs, vmap_method, input_output_aliases, has_side_effect)


def define(kernel: Any) -> CudaDefinition:
    """The definition of a kernel.

    Raises:
        KernelTypeError: It was made neither by ``numba.cuda.jit`` nor by ``numba_cuda_mlir.cuda.jit``.
    """
    if not is_mlir(kernel):
        from numba.cuda.dispatcher import CUDADispatcher

        if not isinstance(kernel, CUDADispatcher):
            raise KernelTypeError(
                f"numba_cuda_kernel got {kernel!r} of type {type(kernel).__name__}, expected a function decorated with "
                "numba.cuda.jit or numba_cuda_mlir.cuda.jit."
            )
    return DEFINITIONS.define(LANGUAGE, id(kernel), lambda: CudaDefinition.of(kernel))


class CudaOptions(Launched, frozen=True):
    """How a kernel is launched.

    Attributes:
        raises: Whether the kernel is compiled with ``debug=True``. Then Python launches it and raises its exceptions.
    """

    raises: bool = False


class _NumbaCuda(CubinLanguage[CudaDefinition, CudaOptions]):
    def check(self, definition: CudaDefinition, options: CudaOptions, signature: Signature) -> None:
        super().check(definition, options, signature)
        if is_mlir(definition.dispatcher):
            check_threads(definition.name, options.shape)

    def compile(
        self, definition: CudaDefinition, options: CudaOptions, signature: Signature, platform: str
    ) -> Compiled:
        aligned = options.alignments(signature)
        if is_mlir(definition.dispatcher):
            made = functools.cache(functools.partial(mlir_kernel, definition, signature.arrays, options.shape))
            _, identity = made(driver.compute_capability(local_ordinals()[0]))
            return self.compiled(definition, options, identity, lambda capability: made(capability)[0], aligned)
        kernel = compile_kernel(definition, signature.arrays)
        if options.raises:
            load = functools.partial(_load_raising, definition.name, options, signature, kernel)
            return Compiled(code_of(kernel), load, target=CUDA_HOST)
        launch = array_launch(definition.name, options.shape, signature.arrays, kernel.cooperative)
        return self.compiled(
            definition,
            options,
            code_of(kernel),
            lambda capability: Cubin(*machine_code(kernel, capability), launch),
            aligned,
            load=lambda cubin, ordinal: load_kernel(definition.name, kernel, options.shape, ordinal),
        )


LANGUAGE = _NumbaCuda(
    LANGUAGES["numba_cuda"],
    compiler="Numba-CUDA",
    options_type=CudaOptions,
    dtypes=CPU_DTYPES,
)


def _load_raising(name: str, options: CudaOptions, signature: Signature, compiled: Any) -> HostPlan:
    """The plan by which Python launches a kernel and raises its exceptions."""
    from bridge.compat.numba_cuda import core_stream
    from bridge.languages.numba_cuda.caller import Caller

    shape = options.shape
    if not shape.is_empty:
        load_everywhere(functools.partial(load_kernel, name, compiled, shape))

    def run(*arguments: Any) -> None:
        *arrays, stream = arguments
        if not shape.is_empty:
            compiled.launch(arrays, shape.grid, shape.block, core_stream(stream), shape.shared_bytes)

    return Caller(name, run, array_shapes(signature)).plan()
