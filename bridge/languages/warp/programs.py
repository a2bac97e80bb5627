"""Finds and makes the compiled JAX program for each call of a wrapped Warp kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax

from bridge.debug.mode import kernel_modes
from bridge.errors import SignatureError
from bridge.ffi.avals import align_varying
from bridge.ffi.kernel_call import available
from bridge.languages.release import kept
from bridge.languages.warp.adjoint import with_adjoint
from bridge.languages.warp.compiled import has_adjoint
from bridge.languages.warp.parameters import Role
from bridge.languages.warp.planned import plan_call
from bridge.languages.warp.settings import configured, settings_of
from bridge.languages.warp.static_values import Static
from bridge.languages.warp.wrapper_options import Options
from bridge.signature.arguments import Traced, is_array, kind_of
from bridge.signature.call_options import check_vmap_method
from bridge.source.unwritten import is_empty, warn_unwritten

_RECENT_KEPT = 64

OPTIONS_OF_A_CALL = ("launch_dims", "output_dims", "vmap_method")
"""Options that a single call may override."""


def passed_names(options: Options) -> list[str]:
    """Names of the parameters that a caller passes."""
    return [parameter.name for parameter in options.parameters if parameter.role is not Role.OUTPUT]


class FoundProgram(NamedTuple):
    """The program of a kernel that takes only arrays, and what tells that it is out of date.

    Attributes:
        config: The settings in ``warp.config`` that it was found with.
        hashers: The attribute ``hashers`` of the kernel's module, which Warp replaces when the module changes.
        program: The program; None for a kernel that takes values as well.
    """

    config: tuple[Any, ...]
    hashers: Any
    program: Callable[..., list[jax.Array]] | None


class Programs:
    """Finds the program for the values that a call passes, the options that it overrides, and Warp's settings."""

    def __init__(self, options: Options, differentiable: bool, everywhere: bool):
        self._options = options
        self._differentiable = differentiable
        self._everywhere = everywhere
        self._module = options.kernel.module
        self._hashers = self._module.hashers
        self._passed = [parameter for parameter in options.parameters if parameter.role is not Role.OUTPUT]
        self._arrays = [index for index, parameter in enumerate(self._passed) if parameter.is_array]
        self._values = [index for index, parameter in enumerate(self._passed) if not parameter.is_array]
        # Programs by values of Python's own types: finding them here is faster than by the content of the values.
        self._recent: dict[tuple[Any, ...], Callable[..., Any]] = {}

    def of_arrays(self) -> FoundProgram:
        """The program of a kernel that takes only arrays, under the present settings."""
        config, hashers = configured(), self._module.hashers
        return FoundProgram(config, hashers, None if self._values else self._find(self._options, ()))

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
        if unknown := [name for name in options if name not in OPTIONS_OF_A_CALL]:
            raise SignatureError(
                f"{key} got {', '.join(unknown)} by name, but kernels take their arguments by position. Call "
                f"{key}({', '.join(passed_names(self._options))}); by name it takes {', '.join(OPTIONS_OF_A_CALL)}."
            )
        check_vmap_method(options.get("vmap_method"), key)

    def _find(self, options: Options, args: Sequence[Any]) -> Callable[..., list[jax.Array]]:
        statics = [Static.of(args[index], options.kernel, self._passed[index]) for index in self._values]
        settings = settings_of(options.kernel)
        return _program(options, tuple(statics), settings, self._differentiable, self._everywhere)

    def _find_recent(self, args: Sequence[Any]) -> Callable[..., list[jax.Array]]:
        values = [args[index] for index in self._values]
        if not all(type(value) in (int, float, bool) for value in values):
            return self._find(self._options, args)
        # repr: -0.0 differs from 0.0, NaN equals NaN
        key = (configured(), *[(type(value), repr(value)) for value in values])
        if self._module.hashers is not self._hashers:
            self._recent, self._hashers = {}, self._module.hashers
        program = self._recent.get(key)
        if program is None:
            if len(self._recent) >= _RECENT_KEPT:
                self._recent.clear()
            program = self._recent[key] = self._find(self._options, args)
        return program


def _miscounted(options: Options, given: int) -> SignatureError:
    passed = passed_names(options)
    return SignatureError(
        f"{options.kernel.key} got {given} arguments, expected {len(passed)}: {', '.join(passed)}. Outputs are not "
        "passed."
    )


@kept
def _program(
    options: Options, statics: tuple[Static, ...], settings: tuple[str, ...], differentiable: bool, everywhere: bool
) -> Callable[..., list[jax.Array]]:
    """The call as a ``jax.jit`` function of its arrays; the same for equal options, so that it is compiled once.

    Args:
        options: The kernel and how it is launched.
        statics: The values passed for the parameters that are no arrays.
        settings: Warp's settings. Another function is traced and compiled under other settings.
        differentiable: Whether the call has the derivative that Warp generates, if Warp generates one.
        everywhere: Whether the kernel is loaded on all devices.
    """

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
        has_derivative = (
            has_adjoint(options.kernel)
            and any(p.is_float for p in planned.inputs)
            and any(p.is_float for p in planned.outputs)
        )
        if everywhere:
            code = planned.forward_call().code
            for platform in filter(available, code.platforms):
                code.entry(platform)
        if not (differentiable and has_derivative):
            return planned.forward(*arrays)
        # Align outside of the function with a custom derivative, so that JAX sums gradients over the mesh.
        return with_adjoint(planned)(*align_varying(arrays))

    program = jax.jit(Traced(call, options.kernel.key, [parameter.name for _, parameter in passed], check))
    kernel_modes.add_wrapper(program)
    return program
