"""Plans one call of a Warp kernel or of its adjoint: shapes of outputs, and the launch, from the types of its arrays.

The adjoint of a kernel is a kernel too. It takes the arrays of the forward launch, and an adjoint for each of them. It
reads the adjoints of the arrays that the kernel wrote, and adds to the adjoints of the arrays that the kernel read. The
call passes these adjoints:

- for an input: zeros, which become its gradient;
- for an output: its cotangent, in a buffer of the call, because JAX's arrays do not change. Where the kernel stores,
  the adjoint clears the element, so that values which the kernel overwrote later contribute nothing;
- for an in/out argument: its cotangent, which becomes its gradient. Where the kernel adds to the argument, the
  cotangent stays. Where the kernel stores, it is cleared and replaced by the gradient through the stored value.

The adjoint sees an in/out argument as it was before the forward launch. There is one exception: an argument that the
kernel uses only for maxima or minima is passed as it was after the launch, because the adjoint of ``atomic_max``
compares values with the result to find the one that won.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import warp as wp

from bridge.debug.checking import kernel_checks
from bridge.errors import DifferentiationError, LaunchError, SignatureError
from bridge.ffi.kernel_call import bind
from bridge.ffi.mesh.division import with_sharding
from bridge.kernel.arguments import Outputs, check_known_shapes
from bridge.kernel.definitions import KernelCall
from bridge.kernel.language import Definition, NativeLanguage
from bridge.languages.warp.generated import Generated, generated_everywhere, instantiated
from bridge.languages.warp.inputs import EXTREMES, Uses, loses_a_value, only_read, written
from bridge.languages.warp.operations import WarpArgument, WarpLaunch
from bridge.languages.warp.parameters import MAX_EXTENT, Role, WarpParameter, check_fits, concrete, inputs_of
from bridge.languages.warp.settings import block_dim_on
from bridge.languages.warp.wrapper import Dims, StaticValue, WrapperOptions


@dataclass(frozen=True)
class Planned:
    """A call whose types are known.

    Attributes:
        language: The language of Warp kernels.
        definition: The user's kernel in it.
        options: The options of the call.
        kernel: The kernel, or the instance of a generic one.
        parameters: Its parameters, with concrete types.
        values: The memory of each parameter that is a value, by name.
        shapes: The shape of each array parameter, by name, without the dimensions of its elements.
        dims: Threads along each dimension.
        codes: The code of the kernel for each platform that Warp generates it for.
        checks: The checks to make when the kernel or its adjoint runs.
    """

    language: NativeLanguage[Any, WarpLaunch]
    definition: Definition
    options: WrapperOptions
    kernel: wp.Kernel
    parameters: tuple[WarpParameter, ...]
    values: Mapping[str, bytes]
    shapes: Mapping[str, Dims]
    dims: Dims
    codes: tuple[Generated, ...]
    checks: Any

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
        names = [p.name for p in self.outputs if p.role is Role.IN_OUT]
        return frozenset(name for name in names if self.uses[name] and self.uses[name] <= EXTREMES)

    @property
    def inputs(self) -> list[WarpParameter]:
        """The arrays that the caller passes."""
        return inputs_of(self.parameters)

    @property
    def outputs(self) -> list[WarpParameter]:
        """The arrays that the caller receives."""
        return [p for p in self.parameters if p.role is not Role.INPUT]

    def specs(self, parameters: Sequence[WarpParameter]) -> list[jax.ShapeDtypeStruct]:
        """Shape and dtype of array parameters as JAX sees them."""
        return [p.spec(self.shapes[p.name]) for p in parameters]

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
        results = self.specs([*outputs, *(inputs[index] for index in copied)])
        aliases = [*aliases, *((index, len(outputs) + number) for number, index in enumerate(copied))]
        launch = WarpLaunch(
            dims=self.dims,
            block_dim=self.options.block_dim,
            backward=adjoints is not None,
            arguments=arguments,
        )
        return KernelCall.of(
            self.language,
            self.definition,
            launch,
            self.specs(inputs),
            results,
            tuple(aliases),
            name=f"{self.kernel.key} (adjoint)" if adjoints is not None else self.kernel.key,
            vmap_method=self.options.vmap_method,
            has_side_effect=self.options.has_side_effect and adjoints is None,
            hidden=len(copied),
            guards=len(copied),
            checks=self.checks,
        )

    def forward(self, *arrays: Any) -> list[jax.Array]:
        """Launches the kernel on its input arrays; returns in/out arguments and outputs, in order."""
        inputs, outputs = self.inputs, self.outputs
        buffers = {p.name: index for index, p in enumerate((*inputs, *outputs))}
        aliases = [(index, outputs.index(p)) for index, p in enumerate(inputs) if p.role is Role.IN_OUT]
        return bind(self.call(inputs, outputs, buffers, aliases), *arrays)[: len(outputs)]


def plan_call(
    language: NativeLanguage[Any, WarpLaunch],
    definition: Definition,
    options: WrapperOptions,
    statics: Sequence[StaticValue],
    arrays: Sequence[Any],
) -> Planned:
    """Plans a call for the types of its arrays.

    Args:
        language: The language of Warp kernels.
        definition: The kernel in it.
        options: The kernel and how it is launched.
        statics: The values passed for the parameters that are no arrays, in order.
        arrays: Anything with shape and dtype, for each input array.

    Raises:
        SignatureError: An array or value does not fit its parameter, a shape is unknown or impossible, or the kernel
            writes to an input.
        LaunchError: The launch dimensions are unknown, or launch nothing while there is something to write.
        KernelCompileError: Warp cannot generate code of the kernel.
    """
    kernel, name = options.kernel, options.kernel.key
    parameters = concrete(kernel, options.parameters, arrays)
    given = iter(statics)
    values = {p.name: next(given).as_type(kernel, p) for p in parameters if not p.is_array}
    if options.launch_dims is None and not arrays:
        raise LaunchError(f"{name}: it takes no array whose shape could be launched over. Pass launch_dims.")
    shapes, first = shapes_of(options, parameters, arrays, "the launch dimensions")
    dims = first if options.launch_dims is None else options.launch_dims
    if 0 in dims and any(math.prod(shapes[p.name]) for p in parameters if p.role is Role.OUTPUT):
        raise LaunchError(
            f"{name}: the launch dimensions {dims} launch nothing, so the outputs would not be written. Launch "
            "at least one thread, or declare empty outputs."
        )
    instance = instantiated(kernel, [(p.ndim, str(p.dtype), p.inner or ()) for p in parameters])
    everywhere = generated_everywhere(instance, options.block_dim).values()
    codes = tuple(code for code in everywhere if isinstance(code, Generated))
    _check_launch(options, dims, codes)
    check_fits(name, parameters, shapes)
    checks = kernel_checks()
    planned = Planned(language, definition, options, instance, parameters, values, shapes, dims, codes, checks)
    check_not_written(name, parameters, planned.uses)
    Outputs.of(planned.specs(planned.outputs), name).check_precision(name)
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


def check_not_written(name: str, parameters: Sequence[WarpParameter], uses: Mapping[str, Uses]) -> None:
    """Refuses a kernel that certainly writes to an input, whose author expects the values somewhere.

    Raises:
        SignatureError: It does.
    """
    for parameter in parameters:
        if parameter.role is Role.INPUT and written(uses.get(parameter.name, frozenset())):
            raise SignatureError(
                f"{name}({', '.join(each.name for each in parameters)}): the kernel writes to its input "
                f"{parameter.name!r}, but JAX's arrays do not change. Name it in in_out_argnames=[{parameter.name!r}] "
                "and count it in num_outputs, or put it among the outputs."
            )


def shapes_of(
    options: WrapperOptions, parameters: Sequence[WarpParameter], arrays: Sequence[Any], of: str
) -> tuple[dict[str, Dims], Dims]:
    """The shape of each array parameter in elements, by name, and of the first array.

    Args:
        options: The options of the call.
        parameters: The parameters, with concrete types.
        arrays: Anything with shape and dtype, for each input array.
        of: What gives an output its shape where nothing else does, for errors.

    Raises:
        SignatureError: A shape is unknown, or has another rank than the output.
    """
    check_known_shapes(arrays, options.kernel.key)
    given = zip(inputs_of(parameters), arrays, strict=True)
    shapes = {p.name: tuple(array.shape[: p.ndim]) for p, array in given}
    first = next(iter(shapes.values()), ())
    shapes |= {p.name: _output_shape(options, p, first, of) for p in parameters if p.role is Role.OUTPUT}
    return shapes, first


def _output_shape(options: WrapperOptions, parameter: WarpParameter, first: Dims, of: str) -> Dims:
    """The shape of an output in elements; ``output_dims`` may give the extents of each element as well."""
    given, name, dims = options.output_dims, parameter.name, options.launch_dims
    default = first if dims is None or (options.backward_asked and len(first) == parameter.ndim) else dims
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


_LOOP = re.compile(r"^\s*start_(?:for|while)_\w+:;$", re.MULTILINE)
"""Where a loop begins that Warp does not unroll, in the C++ that it generates."""


def with_adjoint(planned: Planned) -> Callable[..., list[jax.Array]]:
    """The call as a function of its arrays that ``jax.grad`` and ``jax.vjp`` can differentiate."""
    function = jax.custom_vjp(planned.forward)

    def forward(*arrays: Any) -> tuple[list[jax.Array], Any]:
        if not planned.options.backward_asked and any(_LOOP.search(code.source) for code in planned.codes):
            raise DifferentiationError(
                f"{planned.kernel.key} has a loop of run-time length, which Warp's adjoint does not run again: it may "
                "read variables after the loop has changed them, and the gradient would be wrong. Compare the gradient "
                "with jax.test_util.check_grads, and pass enable_backward=True if it is right."
            )
        for p in (*planned.inputs, *planned.outputs):
            if _loses_a_value(planned, p):
                raise DifferentiationError(
                    f"{planned.kernel.key} reads elements of {p.name} that it also stores to, in an order that Warp's "
                    "adjoint does not repeat: the gradient would be wrong. Keep the value in a variable and store it "
                    "once, at the end. If jax.test_util.check_grads finds it right, pass enable_backward=True."
                )
        results = planned.forward(*arrays)
        return results, (arrays, results)

    function.defvjp(forward, functools.partial(_gradients, planned))
    return function


def _loses_a_value(planned: Planned, p: WarpParameter) -> bool:
    """Whether the adjoint reads another value of an array than the kernel did, see :func:`loses_a_value`."""
    if planned.options.backward_asked or not p.is_array or not p.is_float or p.role is Role.INPUT:
        return False
    has_results = p.role is Role.OUTPUT or p.name in planned.extremes
    return any(loses_a_value(code.code, p.name, code.native, has_results=has_results) for code in planned.codes)


def _gradients(planned: Planned, saved: tuple[Sequence[Any], ...], cotangents: Sequence[Any]) -> tuple[Any, ...]:
    """The gradient of each input array; None for integers and booleans.

    Args:
        planned: The launch.
        saved: The arrays of the call, and its results.
        cotangents: Those of the results.
    """
    (arrays, results), inputs, outputs = saved, planned.inputs, planned.outputs
    # The inputs of the call: the arrays, the outputs, and the adjoints, each of which shares its buffer with a result.
    pure = [(p, result) for p, result in zip(outputs, results, strict=True) if p.role is Role.OUTPUT]
    adjoints = [(p, cotangent) for p, cotangent in zip(outputs, cotangents, strict=True) if p.is_float]
    adjoints += [
        (p, jnp.zeros_like(array))
        for p, array in zip(inputs, arrays, strict=True)
        if p.role is Role.INPUT and p.is_float
    ]
    extremes = {p.name: r for p, r in zip(outputs, results, strict=True) if p.name in planned.extremes}
    passed = [*((p, extremes.get(p.name, array)) for p, array in zip(inputs, arrays, strict=True)), *pure]
    first_result = len(passed) + len(adjoints)
    adjoint_buffers = {p.name: first_result + index for index, (p, _) in enumerate(adjoints)}
    call = planned.call(
        inputs=[p for p, _ in (*passed, *adjoints)],
        outputs=[p for p, _ in adjoints],
        buffers={p.name: index for index, (p, _) in enumerate(passed)},
        aliases=[(len(passed) + index, index) for index in range(len(adjoints))],
        adjoints=adjoint_buffers,
    )
    gradients = bind(call, *(array for _, array in (*passed, *adjoints)))[: len(adjoints)]
    by_name = {p.name: gradient for (p, _), gradient in zip(adjoints, gradients, strict=True)}
    for p, array in zip(inputs, arrays, strict=True):
        if p.name in extremes and p.is_float:  # an initial value that was exceeded contributes nothing
            by_name[p.name] = jnp.where(array == extremes[p.name], by_name[p.name], 0)
    # On a mesh with explicit axes the sharding of an array is part of the type of its gradient.
    return tuple(
        with_sharding(by_name[p.name], jax.typeof(array).sharding) if p.is_float else None
        for p, array in zip(inputs, arrays, strict=True)
    )
