"""Makes Warp kernels callable from JAX: :func:`jax_kernel`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
import warp as wp

from bridge.debug.mode import kernel_modes
from bridge.errors import DifferentiationError, KernelTypeError, LaunchError, SignatureError
from bridge.languages.copying import ByName, copied_as_a_call
from bridge.languages.warp.compiled import has_adjoint
from bridge.languages.warp.fallback import is_understood, warps_own
from bridge.languages.warp.parameters import parameters_of
from bridge.languages.warp.programs import OPTIONS_OF_A_CALL, Programs, passed_names
from bridge.languages.warp.settings import configured
from bridge.languages.warp.warp_language import define
from bridge.languages.warp.wrapper_options import Options, check_dims, check_output_dims
from bridge.signature.arguments import positional
from bridge.signature.call_options import check_vmap_method

_PRELOAD_MODES = (_NO_DEVICE, _CURRENT_DEVICE, _ALL_DEVICES) = range(3)  # Warp's JaxModulePreloadMode
_MOST_BLOCK_DIM = 1024  # the limit of every GPU so far, and of Warp's own blocks on the CPU


def _by_name(argument: Any) -> Any:
    return ByName(argument, argument.func, "Warp kernel") if isinstance(argument, wp.Kernel) else argument


@copied_as_a_call(_by_name)
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
            nothing is written to it.
        num_outputs: Number of arrays returned, in/out arguments included.
        vmap_method: As for :func:`bridge.numba_kernel`: by default one call launches the kernel for each element.
        launch_dims: Threads along each dimension, an int or up to four; by default the shape of the first array.
        output_dims: Shape of the outputs, in elements (an array of ``vec3`` has no dimension for the 3): one for all,
            or a dict by name. By default the launch dimensions.
        in_out_argnames: Parameters that are given an initial value and returned; they come first among the results.
        module_preload_mode: Warp's ``JaxModulePreloadMode``. Modules are loaded before the program runs in any case, on
            all devices of its platform; ``ALL_DEVICES`` loads them for the other platform as well.
        enable_backward: Whether ``jax.grad`` and ``jax.vjp`` use the adjoint that Warp generates. By default they do if
            there is one; this does not slow the forward call. True requires one.
        has_side_effect: Run the kernel even if nothing uses its results. Such a call has no derivative.
        block_dim: Threads of a block on CUDA, 256 by default. A kernel that works on tiles is launched with it as the
            last of ``launch_dims``; on the CPU, where one thread does the work of a block, that dimension is dropped.

    Returns:
        A function of the kernel's inputs that returns a list: in/out arguments, then outputs. Arrays of vectors or
        matrices have their dimensions last. Values that are no arrays are static: they are compiled into the call. Also
        takes ``launch_dims``, ``output_dims`` and ``vmap_method``, for a single call. A call follows ``warp.config``
        and the options of the kernel's module; inside ``jax.jit`` it follows what they are when JAX traces it. Its
        attribute ``block_dim`` is the option.

    Raises:
        KernelTypeError: ``kernel`` was not made by ``warp.kernel``, or has a parameter of a type that JAX lacks (a
            struct, a texture).
        SignatureError: An option, or, when called, an argument does not fit the kernel; or, when called, the kernel
            writes to an input.
        ParameterError: When called: a value is traced.
        LaunchError: The launch makes no sense, is over a limit of the device, or launches nothing while an output is
            not empty.
        KernelCompileError: When called: Warp cannot compile the kernel, or it refers to a JAX array.
        DifferentiationError: ``enable_backward`` is True but there is no adjoint.

    Warns:
        UnwrittenOutputWarning: When called: the source of the kernel never writes to an output.

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
    if not is_understood():
        return warps_own(
            kernel=kernel, num_outputs=num_outputs, vmap_method=vmap_method, launch_dims=launch_dims,
            output_dims=output_dims, in_out_argnames=in_out_argnames, module_preload_mode=module_preload_mode,
            enable_backward=enable_backward, has_side_effect=has_side_effect, block_dim=block_dim,
        )  # fmt: skip
    names = in_out_argnames or ()
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise SignatureError(f"{kernel.key}: in_out_argnames is {in_out_argnames!r}, expected a list of names.")
    check_vmap_method(vmap_method, kernel.key)
    parameters = parameters_of(kernel, num_outputs, tuple(names))
    options = Options(
        kernel=kernel,
        parameters=parameters,
        launch_dims=None if launch_dims is None else check_dims(kernel.key, "launch_dims", launch_dims),
        output_dims=check_output_dims(kernel.key, parameters, output_dims),
        block_dim=_check_block_dim(kernel.key, block_dim),
        vmap_method=vmap_method,
        has_side_effect=bool(has_side_effect),
    )
    define(kernel)
    everywhere = _check_preload_mode(kernel.key, module_preload_mode) == _ALL_DEVICES
    programs = Programs(options, _differentiable(options, enable_backward), everywhere)
    found, module = programs.of_arrays(), kernel.module

    # A closure, because an eager call takes a few microseconds, and each attribute look-up would add to them.
    def call(*args: Any, **options: Any) -> list[jax.Array]:
        nonlocal found
        config, hashers, program = found
        if options or program is None:
            return programs.call(args, options)
        if configured() != config or module.hashers is not hashers:
            found = programs.of_arrays()
            program = found.program or program
        return program(*args)

    wrapper: Any = _Wrapper(call)
    wrapper.__name__ = wrapper.__qualname__ = kernel.key
    wrapper.__module__, wrapper.__doc__ = kernel.func.__module__, kernel.func.__doc__
    wrapper.block_dim = options.block_dim
    wrapper.__signature__ = _signature(options)
    kernel_modes.add_wrapper(wrapper)
    return wrapper  # type: ignore[no-any-return]


class _Wrapper(functools.partial[list[jax.Array]]):
    """The function that :func:`jax_kernel` returns. A plain function could only be pickled by a name in its module."""

    __name__: str
    __signature__: inspect.Signature

    def __repr__(self) -> str:
        return f"<kernel {self.__name__}{self.__signature__}>"


def _signature(options: Options) -> inspect.Signature:
    named = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in OPTIONS_OF_A_CALL]
    return inspect.Signature([*positional(passed_names(options)), *named])


def _check_block_dim(name: str, block_dim: Any) -> int | None:
    if block_dim is None:
        return None
    if isinstance(block_dim, bool) or not hasattr(block_dim, "__index__") or not 1 <= block_dim <= _MOST_BLOCK_DIM:
        raise LaunchError(f"{name}: block_dim is {block_dim!r}, expected an int from 1 to {_MOST_BLOCK_DIM}, or None.")
    return int(block_dim.__index__())


def _check_preload_mode(name: str, mode: Any) -> int:
    if mode is None:
        return _CURRENT_DEVICE
    if isinstance(mode, bool) or not hasattr(mode, "__index__") or mode not in _PRELOAD_MODES:
        raise SignatureError(
            f"{name}: module_preload_mode is {mode!r}, expected a warp.JaxModulePreloadMode: one of "
            f"{_NO_DEVICE} (NONE), {_CURRENT_DEVICE} (CURRENT_DEVICE) and {_ALL_DEVICES} (ALL_DEVICES)."
        )
    return int(mode)


def _differentiable(options: Options, enable_backward: bool | None) -> bool:
    name = options.kernel.key
    if enable_backward and not has_adjoint(options.kernel):
        raise DifferentiationError(
            f"{name}: enable_backward is True, but Warp generates no adjoint of this kernel. Define it with "
            "warp.kernel(enable_backward=True), and see the options of its module."
        )
    if enable_backward and options.has_side_effect:
        raise DifferentiationError(
            f"{name}: JAX cannot differentiate a call that has side effects. Pass has_side_effect=False, or "
            "enable_backward=False."
        )
    return enable_backward is not False and not options.has_side_effect
