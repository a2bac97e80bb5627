"""Makes the function that users of Warp call: of arrays, and of values that are compiled into the call."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
import warp as wp

from bridge.compat.warp import scalar_of, shape_of, struct_of
from bridge.cuda.launch_shape import integers
from bridge.errors import ParameterError, PlatformError, SignatureError
from bridge.kernel.arguments import check_arrays, check_vmap_method, no_keywords, positional, with_names
from bridge.kernel.definitions import PROGRAMS_KEPT, shared
from bridge.languages.warp.parameters import MAX_DIMENSIONS, NAMES, SCALARS, STRUCT, Role, WarpParameter, numpy_dtype
from bridge.languages.warp.settings import configured

Dims = tuple[int, ...]
OutputDims = tuple[tuple[str, Dims], ...] | None
"""The shape of each output, by name."""


@dataclass(frozen=True)
class WrapperOptions:
    """The facts of a call that are known before its arrays. Hashable.

    Attributes:
        kernel: The user's kernel; it may be generic.
        parameters: Its parameters.
        has_side_effect: Run it even if nothing uses its results.
        block_dim: Threads of a block; None for Warp's default.
        backward_asked: ``enable_backward`` is True. As in Warp, outputs then have the shape of the first array by
            default.
        launch_dims: Threads along each dimension; None to take the shape of the first array.
        output_dims: Shapes of outputs that are not in/out arguments, in elements; None for the launch dimensions.
        vmap_method: As for :func:`bridge.numba_kernel`.
    """

    kernel: wp.Kernel
    parameters: tuple[WarpParameter, ...]
    has_side_effect: bool
    block_dim: int | None = None
    backward_asked: bool = False
    launch_dims: Dims | None = None
    output_dims: OutputDims = None
    vmap_method: str | None = None

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for equal options while the kernel lives; it does not refer to the kernel."""
        kernel, *others = vars(self).values()
        return id(kernel), *others

    @property
    def passed(self) -> list[WarpParameter]:
        """The parameters that a caller passes."""
        return [parameter for parameter in self.parameters if parameter.role is not Role.OUTPUT]

    def override(self, given: Mapping[str, Any], known: Sequence[str]) -> WrapperOptions:
        """A copy of these options with the options that a single call overrides."""
        key = self.kernel.key
        if unknown := given.keys() - set(known):
            raise no_keywords(dict.fromkeys(sorted(unknown)), key, [p.name for p in self.passed], variadic=False)
        if self.backward_asked:
            name = next(iter(given))
            raise SignatureError(
                f"{key}: {name} cannot be overridden per-call: {name} is not supported in a call when "
                "enable_backward=True. Call jax_kernel again with another value."
            )
        return self.having(**given)

    def having(self, **given: Any) -> WrapperOptions:
        """A copy of these options with those that are given, unless they are None.

        Raises:
            SignatureError, LaunchError: One of them makes no sense.
        """
        name, changes = self.kernel.key, {option: value for option, value in given.items() if value is not None}
        check_vmap_method(given.get("vmap_method"), name)
        if "launch_dims" in changes:
            changes["launch_dims"] = integers(name, "launch_dims", changes["launch_dims"], 0, None, MAX_DIMENSIONS)
        if "output_dims" in changes:
            changes["output_dims"] = _check_output_dims(name, self.parameters, changes["output_dims"])
        return replace(self, **changes)


def _check_output_dims(name: str, parameters: Sequence[WarpParameter], output_dims: Any) -> OutputDims:
    """The shapes of the outputs from ``output_dims``: one shape for all, or a dict of shapes by name.

    Raises:
        SignatureError: A dict does not name exactly the outputs; in/out arguments have the shape that is passed.
        LaunchError: A shape is malformed.
    """
    expected = [parameter.name for parameter in parameters if parameter.role is Role.OUTPUT]
    if not isinstance(output_dims, Mapping):
        output_dims = dict.fromkeys(expected, output_dims)
    if set(output_dims) != set(expected):
        raise SignatureError(
            f"{name}: output_dims has shapes for {sorted(map(str, output_dims))}, expected one for each output: "
            f"{expected}."
        )
    count = MAX_DIMENSIONS + 2  # with the dimensions of a matrix
    return tuple(
        (each, integers(name, f"output_dims[{each!r}]", output_dims[each], 0, None, count)) for each in expected
    )


_OBJECTS = (wp.Mesh, wp.Bvh, wp.HashGrid, wp.Volume)
_ids: dict[Any, int] = {}
"""The objects whose ids were passed. They live as long as the process, as machine code that gets their ids does."""


def check_homes(name: str, values: Iterable[bytes], devices: Iterable[Any], platform: str) -> None:
    """Refuses memory that a kernel could not reach: reading it would end the process on a GPU.

    Args:
        name: The kernel, for errors.
        values: The values that it gets, among them ids of objects.
        devices: Warp's devices that have arrays that it uses.
        platform: JAX's name of the platform where it runs.

    Raises:
        PlatformError: An object or array is on another platform.
    """
    passed = [each for each, number in list(_ids.items()) if any(number.to_bytes(8, "little") in one for one in values)]
    homes = [(f"a {type(each).__name__}", each.device) for each in passed]
    for kind, on in [*homes, *(("an array that was not passed", on) for on in devices)]:
        if on.is_cuda != (platform == "cuda"):
            raise PlatformError(
                f"{name} is lowered for {platform}, but uses {kind} on Warp's device {on}. Make it on a {platform} "
                "device (device=...), or put the inputs on the other one (jax.device_put)."
            )


_NAMES_OF = {numpy_dtype(name): name for name in SCALARS}


@dataclass(frozen=True)
class StaticValue:
    """A value that is compiled into a call. Hashable; -0.0 differs from 0.0, and 1 from True."""

    dtype: str
    shape: tuple[int, ...]
    content: bytes

    @classmethod
    def of(cls, value: Any, kernel: wp.Kernel, parameter: WarpParameter) -> StaticValue:
        """Stores the value that the caller passed for a parameter that is no array.

        Raises:
            ParameterError: The value is traced.
            SignatureError: It is no number, vector, matrix or struct.
        """
        if parameter.struct is not None:
            if struct_of(value) is not parameter.struct:
                raise _bad_value(kernel, parameter, value)
            return cls(STRUCT, (), bytes(value.__ctype__()))
        if isinstance(value, jax.core.Tracer):
            raise ParameterError(
                f"{kernel.key}: {parameter.name!r} is a traced value ({jax.typeof(value)}), but values are compiled "
                "into the call; only arrays vary. Mark it static in the surrounding jax.jit, or declare it in the "
                "kernel as a warp.array of one element."
            )
        try:
            if (scalar := scalar_of(value)) in NAMES:  # NumPy takes its halves for integers
                array = np.frombuffer(bytes(value), numpy_dtype(NAMES[scalar])).reshape(shape_of(value))
            else:
                array = np.asarray(getattr(value, "value", value))  # Warp's scalars hold a Python number
        except (TypeError, ValueError) as error:
            raise _bad_value(kernel, parameter, value) from error
        dtype = _NAMES_OF.get(array.dtype)  # faster than the name of the dtype
        if dtype is None and isinstance(value, _OBJECTS):
            return cls.of(_ids.setdefault(value, value.id), kernel, parameter)
        if dtype is None:
            raise _bad_value(kernel, parameter, value)
        return cls(dtype, array.shape, array.tobytes())

    def as_type(self, kernel: wp.Kernel, parameter: WarpParameter) -> bytes:
        """The value in memory, in the type of a parameter.

        Raises:
            SignatureError: The parameter's type cannot hold it.
        """
        if parameter.struct is not None:
            return self.content
        given = np.frombuffer(self.content, numpy_dtype(self.dtype)).reshape(self.shape)
        wanted = numpy_dtype(str(parameter.dtype))
        with np.errstate(all="ignore"):
            converted = given.astype(wanted)
            exact = wanted.kind not in "biu" or np.array_equal(converted, given)
            overflown = np.any(np.isinf(converted.astype(float)) & np.isfinite(given.astype(float)))
        if given.shape != (parameter.inner or ()) or not exact or overflown:
            raise _bad_value(kernel, parameter, given.tolist() if given.ndim == 0 else tuple(given.tolist()))
        return converted.tobytes()


def _bad_value(kernel: wp.Kernel, parameter: WarpParameter, value: Any) -> SignatureError:
    inner = f" of shape {parameter.inner}" if parameter.inner else ""
    kind = parameter.dtype if parameter.struct is None else f"the struct {parameter.struct.key}"
    return SignatureError(
        f"{kernel.key}: {parameter.name!r} is {value!r}, expected a value that {kind or 'a Warp type'}{inner} can hold."
    )


Program = Callable[..., list[jax.Array]]


def program(options: WrapperOptions, key: tuple[Any, ...], call: Program) -> Program:
    """A function of arrays as a ``jax.jit`` function; the same for equal options and keys, so that it compiles once.

    Args:
        options: The kernel, or what stands for it, and how it is launched.
        key: What else decides what the function does.
        call: The function.
    """
    name, names = options.kernel.key, [parameter.name for parameter in options.passed if parameter.is_array]

    def checked(*arrays: Any) -> list[jax.Array]:
        check_arrays(arrays, name, names)
        return call(*arrays)

    return shared((options.key, *key), lambda: jax.jit(with_names(checked, name, names)))


def warp_wrapper(
    options: WrapperOptions,
    named: Sequence[str],
    program_of: Callable[[WrapperOptions, tuple[StaticValue, ...]], Program],
    module: Any,
    attributes: Mapping[str, Any],
) -> Callable[..., list[jax.Array]]:
    """A function of the parameters that are passed. It keeps the programs of its latest values, options and settings.

    Args:
        options: The kernel, or what stands for it, and how it is launched.
        named: The options that a call may override.
        program_of: The call with these options and values, as a ``jax.jit`` function of its arrays.
        module: Has ``hashers``, which another object replaces when Warp's module changes.
        attributes: Attributes of the function.
    """
    kernel, passed, name = options.kernel, options.passed, options.kernel.key
    values = [(index, parameter) for index, parameter in enumerate(passed) if not parameter.is_array]
    arrays = [index for index, parameter in enumerate(passed) if parameter.is_array]

    programs, lock = dict[Any, Program](), threading.RLock()
    usual: Any = None, None, None  # of the latest call without values and options: hashers, settings and program

    def call(*args: Any, **given: Any) -> list[jax.Array]:
        nonlocal usual
        hashers, config, program = usual
        # JAX itself takes a few microseconds for a call, so this is the shortest way for the commonest one.
        if not given and module.hashers is hashers and configured() == config and len(args) == len(arrays):
            return program(*args)  # type: ignore[no-any-return]
        own = options.override(given, named) if given else options
        if len(args) != len(passed):
            expected = ", ".join(parameter.name for parameter in passed) or "none"
            raise SignatureError(
                f"{name} got {len(args)} arguments, expected {len(passed)}: {expected}. Outputs are not passed: the "
                "last parameters are outputs, as many as num_outputs says."
            )
        hashers, config = module.hashers, configured()
        statics = tuple([StaticValue.of(args[index], kernel, parameter) for index, parameter in values])
        key = statics, config, own.key if given else None
        with lock:
            if usual[0] is not hashers:
                programs.clear()
                usual = hashers, None, None
            program = programs.get(key)
            if program is None:
                if len(programs) >= PROGRAMS_KEPT:
                    del programs[next(iter(programs))]
                program = programs[key] = program_of(own, statics)
            if not given and not values:
                usual = hashers, config, program
        return program(*[args[index] for index in arrays])

    keywords = [inspect.Parameter(each, inspect.Parameter.KEYWORD_ONLY, default=None) for each in named]
    signature = inspect.Signature([*positional([parameter.name for parameter in passed]), *keywords])
    wrapper, of = _Wrapper(call), {**attributes, "__module__": kernel.func.__module__, "__doc__": kernel.func.__doc__}
    vars(wrapper).update(of, __name__=name, __qualname__=name, __signature__=signature)
    return wrapper


class _Wrapper(functools.partial[Any]):
    """The function that users get, with a short text."""

    def __repr__(self) -> str:
        return f"<kernel {vars(self)['__name__']}{vars(self)['__signature__']}>"
