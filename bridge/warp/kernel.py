"""Warp kernels as JAX operations: :func:`jax_kernel`."""

from __future__ import annotations

import functools
import importlib
import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import warp as wp

from bridge.errors import AbiError, DifferentiationError, KernelTypeError, LaunchError, SignatureError
from bridge.ffi import driver
from bridge.ffi.avals import align_varying
from bridge.ffi.call import available
from bridge.ffi.target import CPU, CUDA
from bridge.signature import check_vmap_method
from bridge.warp.call import Options, check_dims, check_output_dims, plan_call
from bridge.warp.code import has_adjoint, remember
from bridge.warp.gradient import with_adjoint
from bridge.warp.launch import check_warp
from bridge.warp.parameters import Role, Static, parameters_of

_PROGRAMS_KEPT = 4096
_ALL_DEVICES = 2  # of Warp's JaxModulePreloadMode


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

    Parameters and results are those of ``warp.jax_kernel`` (Warp 1.19), so that either can take the place of the other.
    The kernel is compiled when JAX lowers the call for a platform. XLA may record its launches into CUDA graphs.

    Args:
        kernel: A function decorated with ``warp.kernel``; it may be generic. Its parameters are inputs, in/out
            arguments among them, and then outputs. It takes C-contiguous arrays, writes every element of its outputs,
            and does not write to its inputs.
        num_outputs: Number of arrays returned, in/out arguments included.
        vmap_method: As for :func:`bridge.numba_kernel`: by default one call launches the kernel for each element.
        launch_dims: Threads along each dimension, an int or up to four; by default the shape of the first array.
        output_dims: Shape of the outputs, in elements (that of an array of ``vec3`` has no dimension for the 3): one
            for all, or a dict by name. By default the launch dimensions.
        in_out_argnames: Parameters that are given an initial value and returned; they come first among the results.
        module_preload_mode: Warp's ``JaxModulePreloadMode``. Modules are loaded before the program runs in any case, on
            all devices of its platform; ``ALL_DEVICES`` loads them for the other platform as well.
        enable_backward: Whether ``jax.grad`` and ``jax.vjp`` use the adjoint that Warp generates. By default they do
            if there is one, which takes nothing off the forward call. True requires one.
        has_side_effect: Run the kernel even if nothing uses its results. Such a call has no derivative.
        block_dim: Threads of a block on CUDA, 256 by default. A kernel that works on tiles is launched with it as the
            last of ``launch_dims``; on the CPU, where one thread does the work of a block, that dimension is dropped.

    Returns:
        A function of the kernel's inputs that returns a list: in/out arguments, then outputs. Arrays of vectors or
        matrices have their dimensions last. Values that are no arrays are static: they are compiled into the call. Also
        takes ``launch_dims``, ``output_dims`` and ``vmap_method``, for a single call.

    Raises:
        KernelTypeError: ``kernel`` was not made by ``warp.kernel``, or has a parameter of a type that JAX lacks (a
            struct, a texture).
        SignatureError: An option, or, when called, an argument does not fit the kernel.
        ParameterError: When called: a value is traced.
        LaunchError: The launch makes no sense, is over a limit of the device, or launches nothing while an output is
            not empty.
        KernelCompileError: When lowered: Warp cannot compile the kernel.
        DifferentiationError: ``enable_backward`` is True but there is no adjoint.

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
    if not _understood():
        return _warps_own(
            kernel=kernel, num_outputs=num_outputs, vmap_method=vmap_method, launch_dims=launch_dims,
            output_dims=output_dims, in_out_argnames=in_out_argnames, module_preload_mode=module_preload_mode,
            enable_backward=enable_backward, has_side_effect=has_side_effect, block_dim=block_dim,
        )  # fmt: skip
    names = tuple(in_out_argnames or ())
    if isinstance(in_out_argnames, str):
        raise SignatureError(f"{kernel.key}: in_out_argnames is {in_out_argnames!r}, expected a list of names.")
    check_vmap_method(vmap_method, kernel.key)
    parameters = parameters_of(kernel, num_outputs, names)
    options = Options(
        kernel=kernel,
        parameters=parameters,
        launch_dims=None if launch_dims is None else check_dims(kernel.key, "launch_dims", launch_dims),
        output_dims=check_output_dims(kernel.key, parameters, output_dims),
        block_dim=_check_block_dim(kernel.key, block_dim),
        vmap_method=vmap_method,
        has_side_effect=bool(has_side_effect),
    )
    remember(kernel)
    CPU.install()
    if driver.is_present():
        CUDA.install()
    everywhere = module_preload_mode is not None and int(module_preload_mode) == _ALL_DEVICES
    return _Wrapped(options, _differentiable(options, enable_backward), everywhere)


def _check_block_dim(name: str, block_dim: Any) -> int | None:
    if block_dim is None:
        return None
    if isinstance(block_dim, bool) or not hasattr(block_dim, "__index__") or block_dim < 1:
        raise LaunchError(f"{name}: block_dim is {block_dim!r}, expected an int of at least 1, or None.")
    return int(block_dim.__index__())


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
    wanted = has_adjoint(options.kernel) if enable_backward is None else enable_backward
    return wanted and not options.has_side_effect


class _Wrapped:
    """What :func:`jax_kernel` returns."""

    def __init__(self, options: Options, differentiable: bool, everywhere: bool):
        self._options = options
        self._differentiable = differentiable
        self._everywhere = everywhere
        passed = [parameter for parameter in options.parameters if parameter.role is not Role.OUTPUT]
        self._passed = passed
        self._only_arrays = all(parameter.is_array for parameter in passed)
        self._count = len(passed)
        self._program = _program(options, (), differentiable, everywhere) if self._only_arrays else None
        self.__name__ = self.__qualname__ = options.kernel.key
        self.__doc__ = options.kernel.func.__doc__

    def __repr__(self) -> str:
        return f"<jax_kernel of {self._options.kernel.key}({', '.join(p.name for p in self._options.parameters)})>"

    def __call__(
        self,
        *args: Any,
        launch_dims: int | Sequence[int] | None = None,
        output_dims: int | Sequence[int] | Mapping[str, int | Sequence[int]] | None = None,
        vmap_method: str | None = None,
    ) -> list[jax.Array]:
        """Runs the kernel, see :func:`jax_kernel`."""
        if len(args) != self._count:
            raise SignatureError(
                f"{self.__name__} got {len(args)} arguments, expected {self._count}: "
                f"{', '.join(parameter.name for parameter in self._passed)}. Outputs are not passed."
            )
        program = self._program
        if launch_dims is not None or output_dims is not None or vmap_method is not None:
            check_vmap_method(vmap_method, self.__name__)
            options = self._options.override(launch_dims, output_dims, vmap_method)
            program = _program(options, self._statics(args), self._differentiable, self._everywhere)
        elif program is None:
            program = _program(self._options, self._statics(args), self._differentiable, self._everywhere)
        if not self._only_arrays:
            args = tuple(arg for arg, parameter in zip(args, self._passed, strict=True) if parameter.is_array)
        results: list[jax.Array] = program(*args)
        return results

    def _statics(self, args: Sequence[Any]) -> tuple[Static, ...]:
        return tuple(
            Static.of(arg, self._options.kernel, parameter)
            for arg, parameter in zip(args, self._passed, strict=True)
            if not parameter.is_array
        )


@functools.lru_cache(maxsize=_PROGRAMS_KEPT)
def _program(
    options: Options, statics: tuple[Static, ...], differentiable: bool, everywhere: bool
) -> Callable[..., list[jax.Array]]:
    """The call as a ``jax.jit`` function of its arrays; the same for equal options, so that it is compiled once."""

    def call(*arrays: Any) -> list[jax.Array]:
        passed = [p for p in options.parameters if p.is_array and p.role is not Role.OUTPUT]
        for array, parameter in zip(arrays, passed, strict=True):
            if not (hasattr(array, "shape") and hasattr(array, "dtype")):
                raise SignatureError(
                    f"{options.kernel.key}: a {type(array).__name__} was passed for {parameter}, expected an array."
                )
        planned = plan_call(options, statics, [jax.typeof(array) for array in arrays])
        floats = any(p.is_float for p in planned.inputs) and any(p.is_float for p in planned.outputs)
        if everywhere:
            code = planned.forward_call().code
            for platform in filter(available, code.platforms):
                code.entry(platform)
        if not (differentiable and floats):
            return planned.forward(*arrays)
        # Aligned outside of what has a derivative of its own, so that gradients are summed over the mesh where needed.
        return with_adjoint(planned)(*align_varying(arrays))

    call.__name__ = call.__qualname__ = options.kernel.key
    return jax.jit(call)


def forget_programs() -> None:
    """Drops the programs kept for reuse; those of wrappers that the caller holds go on working."""
    _program.cache_clear()


@functools.cache
def _understood() -> bool:
    """Whether the installed Warp is one whose launches can be made natively; warns once if it is not."""
    try:
        check_warp()
    except AbiError as error:
        warnings.warn(
            f"{error} Until then jax_kernel is Warp's own, which enters Python at every call.",
            RuntimeWarning,
            stacklevel=4,
        )
        return False
    return True


def _warps_own(**options: Any) -> Callable[..., Any]:
    """What Warp's own ``jax_kernel`` makes of these options, so far as it knows them."""
    # Before Warp 1.18 it is under another name.
    own: Any = getattr(wp, "jax_kernel", None) or importlib.import_module("warp.jax_experimental").jax_kernel
    known = inspect.signature(own).parameters
    given = {name: value for name, value in options.items() if value is not None and name in known}
    unknown = [name for name, value in options.items() if value and name not in known]
    if unknown:
        raise AbiError(f"jax_kernel of Warp {wp.__version__} has no options {', '.join(unknown)}. Leave them out.")
    wrapped: Callable[..., Any] = own(**given)
    return wrapped
