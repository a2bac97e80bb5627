"""Makes Python functions that launch Warp kernels callable from JAX: :func:`warp_callable`."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
import warp as wp

from bridge.debug.checking import kernel_checks
from bridge.errors import KernelTypeError
from bridge.ffi.kernel_call import bind
from bridge.kernel.arguments import Outputs, check_arrays
from bridge.kernel.definitions import DEFINITIONS, KernelCall, shared
from bridge.kernel.references import references
from bridge.kernel.wrapper import says_its_call
from bridge.languages.warp.callable.recorded_function import LANGUAGE, StaticValues, WarpFunction, precise
from bridge.languages.warp.parameters import Role, check_fits, concrete, parameters_of
from bridge.languages.warp.planned import shapes_of
from bridge.languages.warp.settings import check_warp, configured
from bridge.languages.warp.wrapper import StaticValue, WrapperOptions, program, warp_wrapper
from bridge.table import LANGUAGES


@says_its_call
def warp_callable(
    func: Callable[..., None],
    num_outputs: int = 1,
    graph_mode: Any = None,
    vmap_method: str | None = None,
    output_dims: int | Sequence[int] | Mapping[str, int | Sequence[int]] | None = None,
    in_out_argnames: Sequence[str] | None = None,
    *,
    stage_in_argnames: Any = None,
    stage_out_argnames: Any = None,
    graph_cache_max: Any = None,
    module_preload_mode: Any = None,
    has_side_effect: bool | None = None,
    python_call: bool = False,
) -> Callable[..., list[jax.Array]]:
    """Makes a Python function that launches Warp kernels callable from JAX, natively, on the CPU and on CUDA.

    This function has the parameters and results of ``warp.jax_callable``: MJX runs with it in its place. The function
    runs once for each set of shapes and values, when JAX traces the call. What it does is recorded, and native code
    repeats it. It is recorded on arrays of Warp's CPU device, which is also the current device, whatever the call runs
    on. On CUDA every operation becomes a launch on XLA's stream, which XLA may record into CUDA graphs. Kernels are
    compiled for a platform when JAX lowers the call for it. So a machine without a GPU can export a call for CUDA.

    Args:
        func: Takes Warp arrays, annotated as a kernel does: inputs, in/out arguments among them, and then outputs. It
            may call ``wp.launch`` and ``wp.launch_tiled``, zero, fill and copy arrays, make temporaries
            with ``wp.zeros`` and ``wp.empty``, and arrays of data, which stay as they are when it is
            traced, with ``wp.array``. ``wp.capture_while`` and ``wp.capture_if`` take functions, which run once. It may
            use arrays that are not passed: see below. It names no device, waits for no other thread that
            uses Warp, writes every element of its outputs, and does not write to its inputs. What it does depends only
            on shapes, and on the values of parameters that are no arrays.
        num_outputs: Number of arrays returned, in/out arguments included.
        graph_mode: Changes nothing, nor do the three parameters for its modes: XLA decides what it records into CUDA
            graphs. They are attributes of the function, as Warp's are.
        vmap_method: As for :func:`bridge.numba_kernel`: each element of a batch is computed by itself. If the function
            makes temporaries, there is one call for each element, so that they share the memory of one.
        output_dims: Shape of the outputs, in elements: one for all, or a dict by name; by default the shape of the
            first array.
        in_out_argnames: Parameters that are given an initial value and returned; they come first among the results.
        stage_in_argnames: See ``graph_mode``.
        stage_out_argnames: See ``graph_mode``.
        graph_cache_max: See ``graph_mode``.
        module_preload_mode: Changes nothing: kernels are loaded before the program runs.
        has_side_effect: Run the function even if nothing uses its results; by default if it writes to arrays that are
            not passed. Say False if these are scratch memory, for ``jax.checkpoint``, which takes no side effects.
        python_call: Do not record the function, but call it in Python, each time and for each element of a batch, with
            arrays of the device that the call runs on, whose current stream is XLA's. It gets copies of inputs that are
            used elsewhere. An exception reaches the caller as a JAX runtime error.

    Returns:
        A function of the inputs that returns a list: in/out arguments, then outputs. Values that are no arrays are
        static. Also takes ``output_dims`` and ``vmap_method``, for a single call. A ``warp.Mesh``, ``Bvh``,
        ``HashGrid`` or ``Volume`` of the device that the call runs on may be passed for its id, a parameter of the type
        ``warp.uint64``. It then lives as long as the process, and the call cannot be exported.

    Raises:
        KernelTypeError: ``func`` is no Python function, or has a parameter without an annotation of a type of Warp.
        SignatureError: An option, or, when called, an argument does not fit the function; or it writes to an input.
        ParameterError: When called: a value is traced.
        RecordingError: When called: the function did something that cannot be repeated, such as reading values, or
            building a mesh; or it raised, or left out an output. The message names it.
        PlatformError: When lowered: there is no such device, or an object or array that the function uses without
            passing it is on another one, or is written to by a program of several devices.
        KernelCompileError: When called or lowered: Warp cannot compile a kernel.
        LaunchError: When lowered: a launch is over a limit of the device.

    An array that is not passed, such as scratch memory or the state of a solver, is used where it is, on the device of
    the call, and lives as long as the process. Calls that use such arrays run one after another, and not in CUDA
    graphs; within one program only their data order them. Each call from Python runs the function
    again, to see whether an array was replaced; a compiled program keeps its own. It cannot be exported, nor run on
    several devices if it writes to such an array.

    On CUDA a function that calls ``capture_while`` or ``capture_if`` is called in Python, as with ``python_call``. When
    the arrays of a call lie where those of an earlier one were, Warp captures a graph, which later calls launch.
    Python stays where Warp cannot capture, as with a temporary that is made within a condition, and where the function
    uses arrays that are not passed, or arrays of data. One that calls ``wp.utils.array_scan``, or sorts or sums so,
    needs ``python_call``.

    The function has no derivative; attach one as for :func:`bridge.numba_kernel`.
    """
    if not isinstance(func, types.FunctionType):
        raise KernelTypeError(
            f"warp_callable got {func!r} of type {type(func).__name__}, expected a Python function that launches Warp "
            "kernels. For one kernel decorated with warp.kernel use jax_kernel."
        )
    LANGUAGES["warp"].require("warp_callable")
    check_warp()
    wp.init()
    name = func.__name__
    labels, known = list(inspect.signature(func).parameters), references(func)
    try:
        annotations = inspect.get_annotations(func, eval_str=True, locals=known)  # text may name a closure's variables
    except NameError as error:
        raise KernelTypeError(
            f"{name}({', '.join(labels)}): an annotation refers to {error.name!r}, which is unknown where it is "
            f"read, as annotations are text in this module. Use {error.name} in the body of the function, too."
        ) from error
    if missing := [label for label in labels if label not in annotations]:
        raise KernelTypeError(
            f"{name}({', '.join(labels)}): {missing[0]!r} has no annotation, expected a type of Warp for each "
            "parameter, as x: wp.array(dtype=float)."
        )
    arguments = [types.SimpleNamespace(label=label, type=annotations[label]) for label in labels]
    like_kernel: Any = types.SimpleNamespace(key=name, func=func, adj=types.SimpleNamespace(args=arguments))
    parameters = parameters_of(like_kernel, num_outputs, in_out_argnames or ())
    refers = tuple(known.values())  # such as kernels, which another cell of a notebook may define again
    definition = DEFINITIONS.define(
        LANGUAGE,
        (id(func), parameters, tuple(map(id, refers))),
        lambda: WarpFunction(name, func, func, like_kernel, parameters, refers),
    )
    if isinstance(output_dims, Mapping):  # Warp ignores in/out arguments there, and MJX names them
        in_out = {p.name for p in parameters if p.role is Role.IN_OUT}
        output_dims = {label: dims for label, dims in output_dims.items() if label not in in_out} or None
    options = WrapperOptions(definition.like_kernel, parameters, bool(has_side_effect))
    options = options.having(output_dims=output_dims, vmap_method=vmap_method)

    made_of = "warp_callable", id(definition), python_call, has_side_effect

    def program_of(own: WrapperOptions, statics: tuple[StaticValue, ...]) -> Callable[..., list[jax.Array]]:
        call = functools.partial(_call, definition, python_call, has_side_effect, own, statics)
        compiled: Any = program(own, (*made_of, statics, configured()), call)

        def run(*arrays: Any) -> Any:
            if not definition.outside:
                return compiled(*arrays)
            check_arrays(arrays, name, [p.name for p in definition.inputs])
            return compiled.__wrapped__(*map(jax.numpy.asarray, arrays))  # JAX would not run the function again

        return run

    modes = wp.JaxCallableGraphMode
    attributes = {
        "graph_mode": modes.JAX if graph_mode is None else modes(graph_mode),
        "graph_cache_max": graph_cache_max,
        "in_out_argnames": tuple(in_out_argnames or ()),
        "stage_in_argnames": frozenset(stage_in_argnames or ()),
        "stage_out_argnames": frozenset(stage_out_argnames or ()),
    }
    module, named = types.SimpleNamespace(hashers=None), ("output_dims", "vmap_method")
    make = functools.partial(warp_wrapper, options, named, program_of, module, attributes)
    return shared((options.key, *made_of, *attributes.items()), make)


def _call(
    definition: WarpFunction,
    python_call: bool,
    has_side_effect: bool | None,
    options: WrapperOptions,
    statics: tuple[StaticValue, ...],
    *arrays: Any,
) -> list[jax.Array]:
    """Calls the function with its arrays, inside of a trace."""
    name, like_kernel = definition.name, definition.like_kernel
    names, inputs = [p.name for p in definition.inputs], [jax.typeof(array) for array in arrays]
    parameters = concrete(like_kernel, definition.parameters, inputs)
    wanted = list(zip(statics, (p for p in parameters if not p.is_array), strict=True))
    for value, p in wanted:
        value.as_type(like_kernel, p)  # refuses what the parameter cannot hold
    values = tuple(value.as_type(like_kernel, precise(p)) for value, p in wanted)
    shapes, _ = shapes_of(options, parameters, inputs, "the first array")
    check_fits(name, parameters, shapes)
    specs = [p.spec(shapes[p.name]) for p in parameters if p.role is not Role.INPUT]
    Outputs.of(specs, name).check_precision(name)
    aliases = tuple((names.index(p.name), at) for at, p in enumerate(definition.results) if p.role is Role.IN_OUT)
    how, has_effect = StaticValues(values, python_call), bool(has_side_effect)
    more = dict[str, Any](vmap_method=options.vmap_method, has_side_effect=has_effect, checks=kernel_checks())
    made = KernelCall.of(LANGUAGE, definition, how, inputs, specs, aliases, **more)
    if not python_call:
        how = definition.latest(how, made.signature)
        has_effect |= has_side_effect is None and definition.recorded(how, made.signature).writes_outside
        made = replace(made, options=how, has_side_effect=has_effect)
    return bind(made.with_hidden_outputs(inputs), *arrays)[: len(specs)]
