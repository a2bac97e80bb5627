"""Makes Warp kernels callable from JAX: :func:`jax_kernel`, and the description of Warp as a native language."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import warp as wp

from bridge.errors import DifferentiationError, KernelTypeError, LaunchError, SignatureError
from bridge.ffi.kernel_call import available
from bridge.ffi.primitive import align_varying
from bridge.kernel.arguments import Signature
from bridge.kernel.definitions import DEFINITIONS, shared
from bridge.kernel.language import Compiled, Definition, NativeLanguage
from bridge.kernel.wrapper import says_its_call
from bridge.languages.warp.cpu_plan import build_host, carried_host
from bridge.languages.warp.cuda_plan import build_device, carried_device
from bridge.languages.warp.generated import check_inputs, generated, has_adjoint, instantiated, takes_handle
from bridge.languages.warp.operations import WarpLaunch
from bridge.languages.warp.parameters import parameters_of
from bridge.languages.warp.planned import plan_call, with_adjoint
from bridge.languages.warp.settings import check_warp, settings_of
from bridge.languages.warp.wrapper import StaticValue, WrapperOptions, check_homes, program, warp_wrapper
from bridge.table import LANGUAGES

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
            there is one; this does not slow the forward call. The adjoint of a loop of run-time length may be wrong,
            and is refused then. True requires an adjoint, and is your word that you checked it.
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
        DifferentiationError: ``enable_backward`` is True but there is no adjoint; or, when differentiated: the kernel
            has a loop, and ``enable_backward`` is not True.

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
    options = WrapperOptions(
        kernel=kernel,
        parameters=parameters_of(kernel, num_outputs, in_out_argnames or ()),
        has_side_effect=bool(has_side_effect),
        block_dim=_check_block_dim(kernel.key, block_dim),
        backward_asked=enable_backward is True,
    ).having(launch_dims=launch_dims, output_dims=output_dims, vmap_method=vmap_method)
    definition = define(kernel)
    if enable_backward and (options.has_side_effect or not has_adjoint(kernel)):
        raise DifferentiationError(
            f"{kernel.key}: enable_backward is True, but Warp generates no adjoint, or the call has "
            "side effects. Define it with warp.kernel(enable_backward=True), and leave has_side_effect out."
        )
    differentiable = enable_backward is not False and not options.has_side_effect

    def program_of(own: WrapperOptions, statics: tuple[StaticValue, ...]) -> Callable[..., list[jax.Array]]:
        def call(*arrays: Any) -> list[jax.Array]:
            planned = plan_call(LANGUAGE, definition, own, statics, [jax.typeof(array) for array in arrays])
            floats = any(p.is_float for p in planned.inputs) and any(p.is_float for p in planned.outputs)
            if not (differentiable and floats and has_adjoint(kernel)):
                return planned.forward(*arrays)
            # Align outside of the function with a custom derivative, so that JAX sums gradients over the mesh.
            return with_adjoint(planned)(*align_varying(arrays))

        # Under other settings of Warp another function is traced and compiled.
        return program(own, ("jax_kernel", statics, settings_of(kernel), differentiable), call)

    in_out = tuple(in_out_argnames or ())
    attributes = {"block_dim": options.block_dim, "in_out_argnames": in_out}
    make = functools.partial(
        warp_wrapper, options, ("launch_dims", "output_dims", "vmap_method"), program_of, kernel.module, attributes
    )
    return shared((options.key, "jax_kernel", differentiable, in_out), make)


def _check_block_dim(name: str, block_dim: Any) -> int | None:
    if block_dim is None:
        return None
    if isinstance(block_dim, bool) or not hasattr(block_dim, "__index__"):
        raise SignatureError(f"{name}: block_dim is {block_dim!r}; block_dim must be an integer or None.")
    if not 1 <= block_dim <= _MOST_BLOCK_DIM:
        raise LaunchError(f"{name}: block_dim is {block_dim!r}; block_dim must be positive, at most {_MOST_BLOCK_DIM}.")
    return int(block_dim.__index__())


@dataclass(frozen=True, eq=False)
class WarpDefinition(Definition):
    """A kernel that is decorated with ``warp.kernel``; it may be generic.

    Attributes:
        kernel: The kernel.
    """

    kernel: wp.Kernel = field(repr=False)


def define(kernel: wp.Kernel) -> WarpDefinition:
    """The definition of a kernel."""
    make = functools.partial(WarpDefinition, kernel.key, kernel.func, kernel.func, kernel)
    return DEFINITIONS.define(LANGUAGE, id(kernel), make)


class _Warp(NativeLanguage[WarpDefinition, WarpLaunch]):
    def compile(self, definition: WarpDefinition, options: WarpLaunch, signature: Signature, platform: str) -> Compiled:
        types = [(None if a.shape is None else len(a.shape), a.dtype, a.inner) for a in options.arguments]
        made = generated(instantiated(definition.kernel, types), platform, options.block_dim)
        check_inputs(made, options, signature)
        code = None if takes_handle(made) else made.digest
        build, carried = (build_host, carried_host) if platform == "cpu" else (build_device, carried_device)
        carry = functools.partial(carried, made, options, signature)
        check_homes(definition.name, [each.value for each in options.arguments], (), platform)
        if not available(platform):  # another machine loads it
            return Compiled(code, lambda: build(made, options, signature), carry=carry)
        # Loaded now, because Warp generates the code once more when it loads, and what the code refers to may change.
        built = build(made, options, signature)
        return Compiled(code, lambda: built, carry=carry)

    def settings(self, definition: WarpDefinition) -> tuple[str, ...]:
        return settings_of(definition.kernel)


LANGUAGE = _Warp(
    LANGUAGES["warp"],
    compiler="Warp",
    options_type=WarpLaunch,
    compiles_when_traced=False,
    local_kernels="it uses a mesh, BVH, hash grid, volume or texture, which only this process has. Call it in the "
    "process that makes the object.",
    derivative_advice="Warp generates the adjoint of a kernel (and none of an adjoint) unless enable_backward is False "
    "where the kernel is defined or wrapped, has_side_effect is True, or its inputs or outputs are all integers. To "
    "attach one, call it in a function that is decorated with jax.custom_vjp, with rules by defvjp.",
)
