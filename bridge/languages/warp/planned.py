"""Plans one call of a Warp kernel: the shapes of its outputs, and its launch, from the types of its arrays."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import warp as wp

from bridge.debug.checking import kernel_checks
from bridge.errors import LaunchError, SignatureError
from bridge.ffi.kernel_call import Call, Checks, bind
from bridge.languages.native_code import NativeCode
from bridge.languages.warp.concrete import concrete
from bridge.languages.warp.dtypes import MAX_EXTENT, numpy_dtype
from bridge.languages.warp.inputs import KernelUses, check_not_written, kernel_uses
from bridge.languages.warp.instances import instantiated
from bridge.languages.warp.launch_spec import Argument, Spec
from bridge.languages.warp.parameters import Parameter, Role
from bridge.languages.warp.static_values import Static
from bridge.languages.warp.warp_language import LANGUAGE, define
from bridge.languages.warp.wrapper_options import Dims, Options, OutputDims
from bridge.signature.array_types import Signature, check_known_shapes
from bridge.signature.outputs import Outputs


@dataclass(frozen=True)
class Planned:
    """A call whose types are known.

    Attributes:
        options: The options of the call.
        kernel: The kernel, or the instance of a generic one.
        parameters: Its parameters, with concrete types.
        values: The memory of each parameter that is a value, by name.
        shapes: The shape of each array parameter, by name, without the dimensions of its elements.
        dims: Threads along each dimension.
        uses: What the kernel does with the memory of its arrays.
        checks: The checks to make when the kernel or its adjoint runs.
    """

    options: Options
    kernel: wp.Kernel
    parameters: tuple[Parameter, ...]
    values: Mapping[str, bytes]
    shapes: Mapping[str, Dims]
    dims: Dims
    uses: KernelUses
    checks: Checks | None

    def arrays(self, *roles: Role) -> list[Parameter]:
        """The array parameters of these roles, in order."""
        return [parameter for parameter in self.parameters if parameter.is_array and parameter.role in roles]

    @property
    def extremes(self) -> frozenset[str]:
        """In/out arguments that the kernel uses only for maxima or minima."""
        names = [parameter.name for parameter in self.arrays(Role.IN_OUT)]
        return frozenset(name for name in names if self.uses.forward.extreme(name))

    @property
    def inputs(self) -> list[Parameter]:
        """The arrays that the caller passes."""
        return self.arrays(Role.INPUT, Role.IN_OUT)

    @property
    def outputs(self) -> list[Parameter]:
        """The arrays that the caller receives."""
        return self.arrays(Role.IN_OUT, Role.OUTPUT)

    def result(self, parameter: Parameter) -> jax.ShapeDtypeStruct:
        """Shape and dtype of an array parameter as JAX sees it."""
        shape = (*self.shapes[parameter.name], *(parameter.inner or ()))
        return jax.ShapeDtypeStruct(shape, numpy_dtype(str(parameter.dtype)))

    def call(
        self,
        inputs: Sequence[Parameter],
        outputs: Sequence[Parameter],
        buffers: Mapping[str, int],
        aliases: Sequence[tuple[int, int]],
        adjoints: Mapping[str, int] | None = None,
    ) -> Call:
        """The call that launches the kernel, or its adjoint. Results for the copies of inputs follow the others.

        Args:
            inputs: A parameter of the type of each input.
            outputs: A parameter of the type of each result.
            buffers: The buffer of each array parameter, by name: inputs of the call, then outputs.
            aliases: Pairs of input and output that share a buffer.
            adjoints: The buffers of the adjoints, by parameter. If given, the call launches the adjoint.
        """
        arguments = tuple(
            Argument(
                dtype=str(parameter.dtype),
                inner=parameter.inner or (),
                shape=self.shapes[parameter.name],
                buffer=buffers[parameter.name],
                adjoint=(adjoints or {}).get(parameter.name),
            )
            if parameter.is_array
            else Argument(str(parameter.dtype), parameter.inner or (), value=self.values[parameter.name])
            for parameter in self.parameters
        )
        uses = self.uses.forward if adjoints is None else self.uses.backward
        shared = {index for index, _ in aliases}
        copied = [index for index, p in enumerate(inputs) if index not in shared and not uses.unwritten(p.name)]
        results = [self.result(parameter) for parameter in (*outputs, *(inputs[index] for index in copied))]
        aliases = [*aliases, *((index, len(outputs) + number) for number, index in enumerate(copied))]
        spec = Spec(
            dims=self.dims,
            block_dim=self.options.block_dim,
            backward=adjoints is not None,
            arguments=arguments,
        )
        name = f"{self.kernel.key} (adjoint)" if adjoints is not None else self.kernel.key
        writable = {index for index, _ in aliases}
        signature = Signature.of(name, [self.result(p) for p in inputs], results, writable, with_extents=True)
        return Call(
            name=name,
            code=NativeCode(LANGUAGE, define(self.options.kernel), spec, signature),
            outputs=tuple((result.shape, result.dtype) for result in results),
            aliases=tuple(aliases),
            vmap_method=self.options.vmap_method,
            has_side_effect=self.options.has_side_effect and adjoints is None,
            hidden=len(copied),
            guards=len(copied),
            checks=self.checks,
        )

    def forward_call(self) -> Call:
        """The call that takes the input arrays and gives in/out arguments and outputs, in order."""
        inputs, outputs = self.inputs, self.outputs
        buffers = {p.name: index for index, p in enumerate(inputs)}
        buffers |= {p.name: len(inputs) + index for index, p in enumerate(outputs)}
        aliases = [
            (index, outputs.index(parameter)) for index, parameter in enumerate(inputs) if parameter.role is Role.IN_OUT
        ]
        return self.call(inputs, outputs, buffers, aliases)

    def forward(self, *arrays: Any) -> list[jax.Array]:
        """Launches the kernel on its input arrays; returns in/out arguments and outputs, in order."""
        return bind(self.forward_call(), *arrays)[: len(self.outputs)]


def plan_call(options: Options, statics: Sequence[Static], arrays: Sequence[Any]) -> Planned:
    """Plans a call for the types of its arrays.

    Args:
        options: The kernel and how it is launched.
        statics: The values passed for the parameters that are no arrays, in order.
        arrays: Anything with shape and dtype, for each input array.

    Raises:
        SignatureError: An array or value does not fit its parameter, a shape is unknown or impossible, or the kernel
            writes to an input.
        LaunchError: The launch dimensions are unknown, or launch nothing while there is something to write.
        KernelCompileError: Warp cannot generate code of the kernel.
    """
    kernel = options.kernel
    parameters = concrete(kernel, options.parameters, arrays)
    given = iter(statics)
    values = {p.name: next(given).as_type(kernel, p) for p in parameters if not p.is_array}
    inputs = [p for p in parameters if p.is_array and p.role is not Role.OUTPUT]
    check_known_shapes(arrays, kernel.key)
    for parameter, array in zip(inputs, arrays, strict=True):
        _check_extents(kernel.key, parameter, array.shape)
    shapes = {p.name: tuple(a.shape[: p.ndim]) for p, a in zip(inputs, arrays, strict=True)}
    dims = options.launch_dims
    if dims is None:
        if not inputs:
            raise LaunchError(f"{kernel.key}: it takes no array whose shape could be launched over. Pass launch_dims.")
        dims = shapes[inputs[0].name]
    outputs = [p for p in parameters if p.role is Role.OUTPUT]
    shapes |= {p.name: _output_shape(kernel, p, options.output_dims, dims) for p in outputs}
    if 0 in dims and any(math.prod(shapes[p.name]) for p in outputs):
        raise LaunchError(
            f"{kernel.key}: the launch dimensions {dims} launch nothing, so the outputs would not be written. Launch "
            "at least one thread, or declare empty outputs."
        )
    types = [(p.ndim, str(p.dtype), p.inner or ()) for p in parameters]
    instance = instantiated(kernel, types)
    uses = kernel_uses(instance, tuple(LANGUAGE.platforms), options.block_dim)
    check_not_written(kernel, parameters, uses.forward)
    planned = Planned(options, instance, parameters, values, shapes, dims, uses, kernel_checks())
    Outputs.of([planned.result(p) for p in planned.outputs], kernel.key).check_precision(kernel.key)
    return planned


def _output_shape(kernel: wp.Kernel, parameter: Parameter, output_dims: OutputDims, dims: Dims) -> Dims:
    """The shape of an output in elements; ``output_dims`` may give the extents of each element as well."""
    named = dict(output_dims) if output_dims and isinstance(output_dims[0], tuple) else None
    shape: Any = named[parameter.name] if named is not None else dims if output_dims is None else output_dims
    assert parameter.ndim is not None
    outer, inner = shape[: parameter.ndim], shape[parameter.ndim :]
    if len(outer) != parameter.ndim or (inner and inner != parameter.inner):
        source = "the launch dimensions, since output_dims is not given" if output_dims is None else "output_dims"
        raise SignatureError(
            f"{kernel.key}: the output {parameter} got the shape {shape} from {source}. Pass "
            f"output_dims={{{parameter.name!r}: (...)}} with {parameter.ndim} extents"
            + (f", or with those of each element after them: {parameter.inner}." if parameter.inner else ".")
        )
    _check_extents(kernel.key, parameter, outer)
    return tuple(outer)


def _check_extents(name: str, parameter: Parameter, shape: Sequence[int]) -> None:
    if max(shape, default=0) > MAX_EXTENT:
        raise SignatureError(
            f"{name}: {parameter} got the shape {list(shape)}, expected extents of at most {MAX_EXTENT}."
        )
