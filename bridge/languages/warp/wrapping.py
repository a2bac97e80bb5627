"""Warp kernels as JAX operations: :func:`jax_kernel`."""

from __future__ import annotations

import functools
import importlib
import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
import warp as wp

from bridge.debug.mode import kernel_modes
from bridge.errors import AbiError, DifferentiationError, KernelTypeError, LaunchError, SignatureError
from bridge.ffi.avals import align_varying
from bridge.ffi.kernel_call import available
from bridge.languages.warp.adjoint import with_adjoint
from bridge.languages.warp.compiled import has_adjoint, remember
from bridge.languages.warp.packing import check_warp
from bridge.languages.warp.parameters import Role, Static, parameters_of
from bridge.languages.warp.planned import Options, check_dims, check_output_dims, plan_call
from bridge.signature.arguments import Traced, is_array, kind_of, positional
from bridge.signature.outputs import check_vmap_method
from bridge.source.unwritten import is_empty, warn_unwritten

_PROGRAMS_KEPT = 4096
_RECENT_KEPT = 64
_PRELOAD_MODES = (_NO_DEVICE, _CURRENT_DEVICE, _ALL_DEVICES) = range(3)  # Warp's JaxModulePreloadMode
_MOST_BLOCK_DIM = 1024  # of every GPU so far, and of Warp's own blocks on the CPU


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
        KernelCompileError: When lowered: Warp cannot compile the kernel, or it refers to a JAX array.
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
    if not _understood():
        return _warps_own(
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
    remember(kernel)
    everywhere = _check_preload_mode(kernel.key, module_preload_mode) == _ALL_DEVICES
    programs = _Programs(options, _differentiable(options, enable_backward), everywhere)
    of_arrays = programs.of_arrays()

    # A closure, because every attribute that is looked up takes a share of the few microseconds of an eager call.
    def call(*args: Any, **options: Any) -> list[jax.Array]:
        if options or of_arrays is None:
            return programs.call(args, options)
        return of_arrays(*args)

    call.__name__ = call.__qualname__ = kernel.key
    call.__doc__ = kernel.func.__doc__
    call.__signature__ = _signature(options)  # type: ignore[attr-defined]
    kernel_modes.add_wrapper(call)
    return call


_OF_A_CALL = ("launch_dims", "output_dims", "vmap_method")
"""Options that a single call may set otherwise."""


def _signature(options: Options) -> inspect.Signature:
    named = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in _OF_A_CALL]
    return inspect.Signature([*positional(_passed_names(options)), *named])


def _passed_names(options: Options) -> list[str]:
    """Names of the parameters that a caller passes."""
    return [parameter.name for parameter in options.parameters if parameter.role is not Role.OUTPUT]


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
    wanted = has_adjoint(options.kernel) if enable_backward is None else enable_backward
    return wanted and not options.has_side_effect


class _Programs:
    """Finds the program for the values that a call passes, and for what it sets otherwise than the wrapper."""

    def __init__(self, options: Options, differentiable: bool, everywhere: bool):
        self._options = options
        self._differentiable = differentiable
        self._everywhere = everywhere
        self._passed = [parameter for parameter in options.parameters if parameter.role is not Role.OUTPUT]
        self._arrays = [index for index, parameter in enumerate(self._passed) if parameter.is_array]
        self._values = [index for index, parameter in enumerate(self._passed) if not parameter.is_array]
        # Finding a program by values of Python's own types takes less time this way than by their content.
        self._recent: dict[tuple[Any, ...], Callable[..., Any]] = {}

    def of_arrays(self) -> Callable[..., list[jax.Array]] | None:
        """The program of a kernel that takes nothing but arrays."""
        return None if self._values else self._find(self._options, ())

    def call(self, args: Sequence[Any], options: Mapping[str, Any]) -> list[jax.Array]:
        """Runs the kernel on arrays and values, in the order of its parameters, with options for this call."""
        if options:
            self._check_options(options)
        if len(args) != len(self._passed):
            raise _miscounted(self._options, len(args))
        program = self._find(self._options.override(**options), args) if options else self._find_recent(args)
        return program(*[args[index] for index in self._arrays])

    def _check_options(self, options: Mapping[str, Any]) -> None:
        key = self._options.kernel.key
        if unknown := [name for name in options if name not in _OF_A_CALL]:
            raise SignatureError(
                f"{key} got {', '.join(unknown)} by name, but kernels take their arguments by position. Call "
                f"{key}({', '.join(_passed_names(self._options))}); by name it takes {', '.join(_OF_A_CALL)}."
            )
        check_vmap_method(options.get("vmap_method"), key)

    def _find(self, options: Options, args: Sequence[Any]) -> Callable[..., list[jax.Array]]:
        statics = [Static.of(args[index], options.kernel, self._passed[index]) for index in self._values]
        return _program(options, tuple(statics), self._differentiable, self._everywhere)

    def _find_recent(self, args: Sequence[Any]) -> Callable[..., list[jax.Array]]:
        values = [args[index] for index in self._values]
        if not all(type(value) in (int, float, bool) for value in values):
            return self._find(self._options, args)
        key = tuple([(type(value), repr(value)) for value in values])  # tells -0.0 from 0.0, and NaN is equal to itself
        program = self._recent.get(key)
        if program is None:
            if len(self._recent) >= _RECENT_KEPT:
                self._recent.clear()
            program = self._recent[key] = self._find(self._options, args)
        return program


def _miscounted(options: Options, given: int) -> SignatureError:
    passed = _passed_names(options)
    return SignatureError(
        f"{options.kernel.key} got {given} arguments, expected {len(passed)}: {', '.join(passed)}. Outputs are not "
        "passed."
    )


@functools.lru_cache(maxsize=_PROGRAMS_KEPT)
def _program(
    options: Options, statics: tuple[Static, ...], differentiable: bool, everywhere: bool
) -> Callable[..., list[jax.Array]]:
    """The call as a ``jax.jit`` function of its arrays; the same for equal options, so that it is compiled once."""

    positions = [(index, p) for index, p in enumerate(p for p in options.parameters if p.role is not Role.OUTPUT)]
    passed = [(index, parameter) for index, parameter in positions if parameter.is_array]

    def check(arrays: Sequence[Any]) -> None:
        for array, (index, parameter) in zip(arrays, passed, strict=False):
            if not is_array(array):
                raise SignatureError(
                    f"{options.kernel.key}: argument {index} is a {kind_of(array)}, but {parameter} takes an array."
                )

    def call(*arrays: Any) -> list[jax.Array]:
        if len(arrays) != len(passed):
            raise _miscounted(options, len(arrays) + len(statics))
        check(arrays)
        planned = plan_call(options, statics, [jax.typeof(array) for array in arrays])
        outputs = [p.name for p in planned.arrays(Role.OUTPUT) if not is_empty(planned.result(p).shape)]
        warn_unwritten(options.kernel.key, options.kernel.func, outputs)
        has_derivative = any(p.is_float for p in planned.inputs) and any(p.is_float for p in planned.outputs)
        if everywhere:
            code = planned.forward_call().code
            for platform in filter(available, code.platforms):
                code.entry(platform)
        if not (differentiable and has_derivative):
            return planned.forward(*arrays)
        # Aligned outside of what has a derivative of its own, so that gradients are summed over the mesh where needed.
        return with_adjoint(planned)(*align_varying(arrays))

    program = jax.jit(Traced(call, options.kernel.key, [parameter.name for _, parameter in passed], check))
    kernel_modes.add_wrapper(program)
    return program


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
            stacklevel=3,  # functools.cache has no frame of its own
        )
        return False
    return True


def _warps_own(**options: Any) -> Callable[..., Any]:
    """What Warp's own ``jax_kernel`` makes of these options, so far as it knows them."""
    # In older versions it is under another name.
    own: Any = getattr(wp, "jax_kernel", None) or importlib.import_module("warp.jax_experimental").jax_kernel
    known = inspect.signature(own).parameters
    unknown = [name for name, value in options.items() if value and name not in known]
    if unknown:
        raise AbiError(f"jax_kernel of Warp {wp.__version__} has no options {', '.join(unknown)}. Leave them out.")
    options["vmap_method"] = options["vmap_method"] or "sequential"  # Warp's default passes the batch as one array
    wrapped: Callable[..., Any] = own(**{name: options[name] for name in known if options.get(name) is not None})
    return wrapped
