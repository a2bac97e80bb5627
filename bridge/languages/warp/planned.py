"""Plans one call of a Warp kernel: the shapes of its outputs, and its launch, from the types of its arrays."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import warp as wp

from bridge.errors import KernelCompileError, LaunchError, SignatureError
from bridge.ffi.kernel_call import bind
from bridge.kernel.arguments import Outputs, Signature, check_known_shapes
from bridge.kernel.definitions import KernelCall
from bridge.kernel.wrapper import kernel_checks
from bridge.languages.warp.dtypes import MAX_EXTENT, numpy_dtype
from bridge.languages.warp.generated import Generated, generated, instantiated
from bridge.languages.warp.inputs import EXTREMES, Uses, check_not_written, only_read
from bridge.languages.warp.launches import WarpArgument, WarpLaunch
from bridge.languages.warp.parameters import Role, WarpParameter, concrete
from bridge.languages.warp.settings import block_dim_on
from bridge.languages.warp.warp_language import LANGUAGE, define
from bridge.languages.warp.wrapper_options import Dims, StaticValue, WrapperOptions


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
        codes: The code of the kernel for each platform that Warp generates it for.
        checks: The checks to make when the kernel or its adjoint runs.
    """

    options: WrapperOptions
    kernel: wp.Kernel
    parameters: tuple[WarpParameter, ...]
    values: Mapping[str, bytes]
    shapes: Mapping[str, Dims]
    dims: Dims
    codes: tuple[Generated, ...]
    checks: Any

    def arrays(self, *roles: Role) -> list[WarpParameter]:
        """The array parameters of these roles, in order."""
        return [parameter for parameter in self.parameters if parameter.is_array and parameter.role in roles]

    @functools.cached_property
    def uses(self) -> dict[str, Uses]:
        """What the kernel does with the memory of each of its arrays, on any platform."""
        return self._uses(backward=False)

    def _uses(self, *, backward: bool) -> dict[str, Uses]:
        of_platforms = [code.uses(backward=backward) for code in self.codes]
        return {name: frozenset[str]().union(*(uses[name] for uses in of_platforms)) for name in self.shapes}

    @property
    def extremes(self) -> frozenset[str]:
        """In/out arguments that the kernel uses only for maxima or minima."""
        names = [parameter.name for parameter in self.arrays(Role.IN_OUT)]
        return frozenset(name for name in names if self.uses[name] and self.uses[name] <= EXTREMES)

    @property
    def inputs(self) -> list[WarpParameter]:
        """The arrays that the caller passes."""
        return self.arrays(Role.INPUT, Role.IN_OUT)

    @property
    def outputs(self) -> list[WarpParameter]:
        """The arrays that the caller receives."""
        return self.arrays(Role.IN_OUT, Role.OUTPUT)

    def result(self, parameter: WarpParameter) -> jax.ShapeDtypeStruct:
        """Shape and dtype of an array parameter as JAX sees it."""
        shape = (*self.shapes[parameter.name], *(parameter.inner or ()))
        return jax.ShapeDtypeStruct(shape, numpy_dtype(str(parameter.dtype)))

    def call(
        self,
        inputs: Sequence[WarpParameter],
        outputs: Sequence[WarpParameter],
        buffers: Mapping[str, int],
        aliases: Sequence[tuple[int, int]],
        adjoints: Mapping[str, int] | None = None,
    ) -> KernelCall:
        """The call that launches the kernel, or its adjoint. Results for the copies of inputs follow the others.

        Args:
            inputs: A parameter of the type of each input.
            outputs: A parameter of the type of each result.
            buffers: The buffer of each array parameter, by name: inputs of the call, then outputs.
            aliases: Pairs of input and output that share a buffer.
            adjoints: The buffers of the adjoints, by parameter. If given, the call launches the adjoint.
        """
        arguments = tuple(
            WarpArgument(
                dtype=str(parameter.dtype),
                inner=parameter.inner or (),
                shape=self.shapes[parameter.name],
                buffer=buffers[parameter.name],
                adjoint=(adjoints or {}).get(parameter.name),
            )
            if parameter.is_array
            else WarpArgument(str(parameter.dtype), parameter.inner or (), value=self.values[parameter.name])
            for parameter in self.parameters
        )
        uses = self.uses if adjoints is None else self._uses(backward=True)
        shared = {index for index, _ in aliases}
        copied = [index for index, p in enumerate(inputs) if index not in shared and not only_read(uses[p.name])]
        results = [self.result(parameter) for parameter in (*outputs, *(inputs[index] for index in copied))]
        aliases = [*aliases, *((index, len(outputs) + number) for number, index in enumerate(copied))]
        launch = WarpLaunch(
            dims=self.dims,
            block_dim=self.options.block_dim,
            backward=adjoints is not None,
            arguments=arguments,
        )
        name = f"{self.kernel.key} (adjoint)" if adjoints is not None else self.kernel.key
        writable = {index for index, _ in aliases}
        signature = Signature.of(name, [self.result(p) for p in inputs], results, writable, with_extents=True)
        definition = define(self.options.kernel)
        return KernelCall(
            name=name,
            language=LANGUAGE,
            definition=definition,
            options=launch,
            signature=signature,
            settings=LANGUAGE.settings(definition),
            outputs=tuple((result.shape, result.dtype) for result in results),
            aliases=tuple(aliases),
            vmap_method=self.options.vmap_method,
            has_side_effect=self.options.has_side_effect and adjoints is None,
            hidden=len(copied),
            guards=len(copied),
            checks=self.checks,
        )

    def forward_call(self) -> KernelCall:
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


def plan_call(options: WrapperOptions, statics: Sequence[StaticValue], arrays: Sequence[Any]) -> Planned:
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
    shapes = {p.name: tuple(a.shape[: p.ndim]) for p, a in zip(inputs, arrays, strict=True)}
    dims = options.launch_dims
    if dims is None:
        if not inputs:
            raise LaunchError(f"{kernel.key}: it takes no array whose shape could be launched over. Pass launch_dims.")
        dims = shapes[inputs[0].name]
    outputs = [p for p in parameters if p.role is Role.OUTPUT]
    shapes |= {p.name: output_shape(options, p, dims, shapes[inputs[0].name] if inputs else ()) for p in outputs}
    if 0 in dims and any(math.prod(shapes[p.name]) for p in outputs):
        raise LaunchError(
            f"{kernel.key}: the launch dimensions {dims} launch nothing, so the outputs would not be written. Launch "
            "at least one thread, or declare empty outputs."
        )
    instance = instantiated(kernel, [(p.ndim, str(p.dtype), p.inner or ()) for p in parameters])
    codes = tuple(
        code for code in generated_everywhere(instance, options.block_dim).values() if isinstance(code, Generated)
    )
    _check_launch(options, dims, codes)
    for parameter in (*inputs, *outputs):
        check_extents(kernel.key, parameter, shapes[parameter.name])
    planned = Planned(options, instance, parameters, values, shapes, dims, codes, kernel_checks())
    check_not_written(kernel.key, parameters, planned.uses)
    Outputs.of([planned.result(p) for p in planned.outputs], kernel.key).check_precision(kernel.key)
    return planned


def _check_launch(options: WrapperOptions, dims: Dims, codes: Sequence[Generated]) -> None:
    """Checks that no thread has the indices of another one, and that no dimension is left out or too long.

    A launch on tiles has one more dimension, the threads of a block. A kernel may do without ``wp.tid()``. As in Warp,
    the extents that ``launch_dims`` leaves out are one.

    Raises:
        LaunchError: The kernel unpacks more or fewer values of ``wp.tid()`` than the launch has dimensions; or one of
            them does not fit 32 bits.
    """
    ranks = {int(rank) for code in codes for rank in re.findall(r"\bbuiltin_tid(\d)d\((?:var_|\);)", code.source)}
    rank = max(ranks, default=len(dims))
    tiled = dims[-1] == block_dim_on("cuda", options.block_dim) and len(dims) == rank + 1
    left_out = options.launch_dims is None and len(dims) < rank
    if left_out or (math.prod(dims[rank:]) > 1 and not tiled):
        raise LaunchError(
            f"{options.kernel.key} is launched over {len(dims)} dimensions, {dims}, expected {rank}, as it unpacks of "
            "wp.tid(): threads would share their indices, or elements be left out. Pass launch_dims with "
            f"{rank} extents."
        )
    for axis, extent in enumerate(dims[:rank] if ranks else ()):
        if extent > MAX_EXTENT:
            raise LaunchError(
                f"{options.kernel.key}: Warp cannot launch a kernel using wp.tid() with extent {extent} in dimension "
                f"{axis}, expected at most {MAX_EXTENT}: its indices have 32 bits. Launch over more dimensions."
            )


def generated_everywhere(kernel: wp.Kernel, block_dim: int | None) -> dict[str, Generated | KernelCompileError]:
    """The code of a kernel by platform, or the error that says why there is none.

    Raises:
        KernelCompileError: There is none for any platform.
    """
    codes: dict[str, Generated | KernelCompileError] = {}
    for platform in LANGUAGE.row.platforms:
        try:
            codes[platform] = generated(kernel, platform, block_dim)
        except KernelCompileError as error:  # raised again when the kernel is compiled for this platform
            codes[platform] = refusal = error
    if not any(isinstance(code, Generated) for code in codes.values()):
        raise refusal
    return codes


def output_shape(
    options: WrapperOptions, parameter: WarpParameter, dims: Dims, first: Dims, of: str = "the launch dimensions"
) -> Dims:
    """The shape of an output in elements; ``output_dims`` may give the extents of each element as well."""
    given, name = options.output_dims, parameter.name
    default = first if options.backward_asked and len(first) == parameter.ndim else dims
    shape = default if given is None else dict(given)[name]
    assert parameter.ndim is not None
    outer, inner = shape[: parameter.ndim], shape[parameter.ndim :]
    if len(outer) != parameter.ndim or (inner and inner != parameter.inner):
        source = f"{of}, since output_dims is not given" if given is None else "output_dims"
        raise SignatureError(
            f"{options.kernel.key}: the output {parameter} got the shape {shape} from {source}. Pass "
            f"output_dims={{{name!r}: (...)}} with {parameter.ndim} extents"
            + (f", or with those of each element after them: {parameter.inner}." if parameter.inner else ".")
        )
    return tuple(outer)


def check_extents(name: str, parameter: WarpParameter, shape: Dims) -> None:
    """Checks that an array fits Warp's descriptor, which has extents and strides (in bytes) of 32 bits.

    Raises:
        SignatureError: It does not; Warp would take other elements than the kernel asks for.
    """
    stride = numpy_dtype(str(parameter.dtype)).itemsize * math.prod(parameter.inner or ())
    for extent in reversed(shape):
        if extent > MAX_EXTENT or (stride > MAX_EXTENT and extent > 1):
            raise SignatureError(
                f"{name}: {parameter} got the shape {list(shape)}, expected extents, and bytes of a step along each "
                f"dimension, of at most {MAX_EXTENT}: Warp's indices and strides have 32 bits. Pass it with other "
                "dimensions (such as reshape(-1)) and compute the index, or in parts."
            )
        stride *= extent
