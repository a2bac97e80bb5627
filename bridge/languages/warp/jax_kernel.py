"""Makes Warp kernels callable from JAX: :func:`jax_kernel`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import warp as wp

from bridge.errors import DifferentiationError, KernelTypeError, LaunchError, SignatureError
from bridge.ffi.primitive import align_varying
from bridge.kernel.arguments import check_vmap_method
from bridge.kernel.wrapper import says_its_call
from bridge.languages.warp.adjoint import with_adjoint
from bridge.languages.warp.generated import has_adjoint
from bridge.languages.warp.parameters import parameters_of
from bridge.languages.warp.planned import plan_call
from bridge.languages.warp.settings import check_warp, settings_of
from bridge.languages.warp.warp_language import define
from bridge.languages.warp.warp_wrapper import Program, program, warp_wrapper
from bridge.languages.warp.wrapper_options import (
    OPTIONS_OF_A_CALL,
    StaticValue,
    WrapperOptions,
    check_dims,
    check_output_dims,
)

_MOST_BLOCK_DIM = 1024  # the limit of every GPU so far, and of Warp's own blocks on the CPU


@says_its_call
def jax_kernel(
    kernel: wp.Kernel,
    num_outputs: int = 1,
    vmap_method: str | None = None,
    launch_dims: int | Sequence[int] | None = None,
    output_dims: int | Sequence[int] | Mapping[str, int | Sequence[int]] | None = None,
    in_out_argnames: Sequence[str] | None = None,
    module_preload_mode: Any = None,
    enable_backward: bool | None = None,
    has_side_effect: bool = False,
    block_dim: int | None = None,
) -> Callable[..., list[jax.Array]]:
    """Makes a Warp kernel callable from JAX, on the CPU and on CUDA: dispatched natively, with no Python in the call.

    This function has the parameters and results of ``warp.jax_kernel`` (Warp 1.19), so either can replace the other.
    The kernel is compiled when JAX lowers the call for a platform. XLA may record its launches into CUDA graphs.

    Args:
        kernel: A function decorated with ``warp.kernel``; it may be generic. Its parameters are inputs, in/out
            arguments among them, and then outputs. It takes C-contiguous arrays, writes every element of its outputs,
            and does not write to its inputs. It gets a copy of an input unless the code that Warp generates shows that
            nothing is written to it (:func:`bridge.languages.warp.inputs.declare_writes` says so of C++).
        num_outputs: Number of arrays returned, in/out arguments included.
        vmap_method: As for :func:`bridge.numba_kernel`: by default one call launches the kernel for each element. With
            ``"parallel"`` XLA's threads share them on the CPU, unless the kernel works on tiles.
        launch_dims: Threads along each dimension, an int or up to four; by default the shape of the first array. They
            are as many as the kernel unpacks of ``wp.tid()``; extents that are left out here are one.
        output_dims: Shape of the outputs, in elements (an array of ``vec3`` has no dimension for the 3): one for all,
            or a dict by name. By default the launch dimensions; with ``enable_backward=True`` the shape of the first
            array, where it has the rank of the output, as in Warp.
        in_out_argnames: Parameters that are given an initial value and returned; they come first among the results.
        module_preload_mode: Warp's ``JaxModulePreloadMode``. It changes nothing: JAX loads a kernel on all devices of a
            platform when it lowers the call for the platform, before the program runs.
        enable_backward: Whether ``jax.grad`` and ``jax.vjp`` use the adjoint that Warp generates. By default they do if
            there is one; this does not slow the forward call. An adjoint of loops that may be wrong is refused then.
            True requires an adjoint, and is your word that you checked it.
        has_side_effect: Run the kernel even if nothing uses its results. Such a call has no derivative.
        block_dim: Threads of a block on CUDA, 256 by default. A kernel that works on tiles is launched with it as the
            last of ``launch_dims``. On the CPU one thread does the work of a block, and that dimension is dropped; with
            ``warp.config.enable_cpu_blocks`` (Warp 1.19) ``block_dim`` threads do it there, too.

    Returns:
        A function of the kernel's inputs that returns a list: in/out arguments, then outputs. Arrays of vectors or
        matrices have their dimensions last. Values that are no arrays are static: they are compiled into the call. Also
        takes ``launch_dims``, ``output_dims`` and ``vmap_method``, for a single call, unless ``enable_backward`` is
        True. A call follows ``warp.config`` and the options of the kernel's module; inside ``jax.jit`` it follows what
        they are when JAX traces it. Its attribute ``block_dim`` is the option. Equal arguments give the same function
        while it lives.

    Raises:
        KernelTypeError: ``kernel`` was not made by ``warp.kernel``, or has a parameter of a type that JAX lacks (a
            struct, a texture).
        SignatureError: An option, or, when called, an argument does not fit the kernel; or, when called, the kernel
            writes to an input.
        ParameterError: When called: a value is traced.
        LaunchError: The launch makes no sense, is over a limit of the device, or launches nothing while an output is
            not empty.
        AbiError: The bridge does not understand the launches of the installed Warp.
        KernelCompileError: When called: Warp cannot compile the kernel, or it refers to a JAX array.
        DifferentiationError: ``enable_backward`` is True but there is no adjoint; or, when differentiated: the adjoint
            of a loop may be wrong.

    A launch that fails reaches the caller as a JAX runtime error with the names of the kernel and of CUDA's error.

    Example::

        @wp.kernel
        def scale(x: wp.array(dtype=float), factor: float, out: wp.array(dtype=float)):
            i = wp.tid()
            out[i] = factor * x[i]

        (y,) = jax_kernel(scale)(x, 3.0)
    """
    if not isinstance(kernel, wp.Kernel):
        raise KernelTypeError(
            f"jax_kernel got {kernel!r} of type {type(kernel).__name__}, expected a function decorated with "
            "warp.kernel."
        )
    check_warp()
    check_vmap_method(vmap_method, kernel.key)
    parameters = parameters_of(kernel, num_outputs, in_out_argnames or ())
    options = WrapperOptions(
        kernel=kernel,
        parameters=parameters,
        launch_dims=None if launch_dims is None else check_dims(kernel.key, "launch_dims", launch_dims),
        output_dims=check_output_dims(kernel.key, parameters, output_dims),
        block_dim=_check_block_dim(kernel.key, block_dim),
        vmap_method=vmap_method,
        has_side_effect=bool(has_side_effect),
        backward_asked=enable_backward is True,
    )
    define(kernel)
    differentiable = _differentiable(options, enable_backward)

    def program_of(own: WrapperOptions, statics: tuple[StaticValue, ...]) -> Program:
        def call(*arrays: Any) -> list[jax.Array]:
            planned = plan_call(own, statics, [jax.typeof(array) for array in arrays])
            floats = any(p.is_float for p in planned.inputs) and any(p.is_float for p in planned.outputs)
            if not (differentiable and floats and has_adjoint(kernel)):
                return planned.forward(*arrays)
            # Align outside of the function with a custom derivative, so that JAX sums gradients over the mesh.
            return with_adjoint(planned)(*align_varying(arrays))

        # Under other settings of Warp another function is traced and compiled.
        return program(own, ("jax_kernel", statics, settings_of(kernel), differentiable), call)

    in_out = tuple(in_out_argnames or ())
    made_of = "jax_kernel", differentiable
    return warp_wrapper(
        options,
        OPTIONS_OF_A_CALL,
        program_of,
        kernel.module,
        made_of,
        block_dim=options.block_dim,
        in_out_argnames=in_out,
    )


def _check_block_dim(name: str, block_dim: Any) -> int | None:
    if block_dim is None:
        return None
    if isinstance(block_dim, bool) or not hasattr(block_dim, "__index__"):
        raise SignatureError(f"{name}: block_dim is {block_dim!r}; block_dim must be an integer or None.")
    if not 1 <= block_dim <= _MOST_BLOCK_DIM:
        raise LaunchError(f"{name}: block_dim is {block_dim!r}; block_dim must be positive, at most {_MOST_BLOCK_DIM}.")
    return int(block_dim.__index__())


def _differentiable(options: WrapperOptions, enable_backward: bool | None) -> bool:
    if enable_backward and (options.has_side_effect or not has_adjoint(options.kernel)):
        raise DifferentiationError(
            f"{options.kernel.key}: enable_backward is True, but Warp generates no adjoint, or the call has "
            "side effects. Define it with warp.kernel(enable_backward=True), and leave has_side_effect out."
        )
    return enable_backward is not False and not options.has_side_effect
