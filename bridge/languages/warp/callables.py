"""Makes Python functions that launch Warp kernels callable from JAX: :func:`warp_callable`."""

from __future__ import annotations

import ctypes
import functools
import inspect
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import msgspec
import warp as wp

from bridge.errors import KernelTypeError, PlatformError, RecordingError, SignatureError
from bridge.ffi.kernel_call import available, bind
from bridge.ffi.plans.device import DevicePlan
from bridge.ffi.plans.host import HostPlan, python_plan
from bridge.ffi.target import CPU, CUDA_HOST, CUDA_IN_TURN
from bridge.languages.definitions import DEFINITIONS, KernelCall, shared
from bridge.languages.language import Compiled, Definition, NativeLanguage, Plan
from bridge.languages.table import LANGUAGES
from bridge.languages.warp.cpu_plan import take_error, tile_mutex, works_on_tiles
from bridge.languages.warp.cuda_plan import alignments_of, recorded_launches
from bridge.languages.warp.dtypes import LOCK, element_type, numpy_dtype
from bridge.languages.warp.inputs import check_not_written, only_read
from bridge.languages.warp.packing import load, value_of
from bridge.languages.warp.parameters import Role, WarpParameter, concrete, parameters_of
from bridge.languages.warp.planned import check_extents, output_shape
from bridge.languages.warp.recorder import ADVICE
from bridge.languages.warp.recording import WarpRecording, record
from bridge.languages.warp.replay import context_of, replay
from bridge.languages.warp.settings import check_warp, configured
from bridge.languages.warp.warp_wrapper import warp_wrapper
from bridge.languages.warp.wrapper_options import StaticValue, WrapperOptions, check_homes, check_output_dims
from bridge.languages.wrapper import kernel_checks, says_its_call
from bridge.signature.arguments import Outputs, Signature, Traced, check_arrays, check_known_shapes, check_vmap_method
from bridge.source.references import references


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

    This function has the parameters and results of ``warp.jax_callable``: MJX runs with it in its place, as was tried
    with ``opt.graph_conditional`` False. The function runs once for each set of shapes and values, when JAX traces the
    call. What it does is recorded, and native code repeats it. It is recorded on arrays of Warp's CPU device, which is
    also the current device, whatever the call runs on. On CUDA every operation becomes a launch on XLA's stream, which
    XLA may record into CUDA graphs. Kernels are compiled for a platform when JAX lowers the call for it. So a machine
    without a GPU can export a call for CUDA.

    Args:
        func: Takes Warp arrays, annotated as a kernel does: inputs, in/out arguments among them, and then outputs. It
            may call ``wp.launch`` and ``wp.launch_tiled``, zero, fill, copy, scan, sum and sort arrays, make
            temporaries with ``wp.zeros`` and ``wp.empty``, and arrays of data, which stay as they are when it is
            traced, with ``wp.array``. ``wp.capture_while`` and ``wp.capture_if`` take functions, which run once. It may
            use arrays that are not passed: see below. It names no device, waits for no other thread that
            uses Warp, writes every element of its outputs, and does not write to its inputs. What it does depends only
            on shapes, and on the values of parameters that are no arrays.
        num_outputs: Number of arrays returned, in/out arguments included.
        graph_mode: Changes nothing, nor do the three parameters for its modes: XLA decides what it records into CUDA
            graphs.
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

    On CUDA a function that calls ``capture_while`` or ``capture_if``, or sorts, scans, sums, or fills in values of more
    than 128 bytes, is called in Python each time, as with ``python_call``.

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
    name, names = func.__name__, in_out_argnames or ()
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise SignatureError(f"{name}: in_out_argnames is {in_out_argnames!r}, expected a list of names.")
    annotations, labels = inspect.get_annotations(func, eval_str=True), list(inspect.signature(func).parameters)
    if missing := [label for label in labels if label not in annotations]:
        raise KernelTypeError(
            f"{name}({', '.join(labels)}): {missing[0]!r} has no annotation, expected a type of Warp for each "
            "parameter, as x: wp.array(dtype=float)."
        )
    arguments = [types.SimpleNamespace(label=label, type=annotations[label]) for label in labels]
    like_kernel: Any = _LikeKernel(name, func, types.SimpleNamespace(args=arguments))
    parameters = parameters_of(like_kernel, num_outputs, tuple(names))
    refers = tuple(references(func).values())  # such as kernels, which another cell of a notebook may define again
    definition = DEFINITIONS.define(
        LANGUAGE,
        (id(func), parameters, tuple(map(id, refers))),
        lambda: _Callable(name, func, func, like_kernel, parameters, refers),
    )
    check_vmap_method(vmap_method, name)
    if isinstance(output_dims, Mapping):  # Warp ignores in/out arguments there, and MJX names them
        output_dims = {label: dims for label, dims in output_dims.items() if label not in names} or None
    shapes = check_output_dims(name, parameters, output_dims)
    like_kernel = definition.like_kernel
    options = WrapperOptions(like_kernel, parameters, None, shapes, None, vmap_method, bool(has_side_effect))

    def program_of(own: WrapperOptions, statics: tuple[StaticValue, ...]) -> Callable[..., list[jax.Array]]:
        program: Any = _program(definition, python_call, has_side_effect, own, statics)

        def run(*arrays: Any) -> Any:
            if not definition.outside:
                return program(*arrays)
            check_arrays(arrays, name, [p.name for p in definition.inputs])
            return program.__wrapped__(*map(jax.numpy.asarray, arrays))  # JAX would not run the function again

        return run

    return warp_wrapper(options, ("output_dims", "vmap_method"), program_of, types.SimpleNamespace(hashers=None))


@dataclass(frozen=True, eq=False)
class _LikeKernel:
    """Has the name, the function and the annotated parameters of a callable where a kernel has them."""

    key: str
    func: types.FunctionType
    adj: Any


@dataclass(frozen=True, eq=False)
class _Callable(Definition):
    """A Python function that launches kernels.

    Attributes:
        like_kernel: Stands for a kernel with its parameters.
        parameters: Its parameters.
        refers: What it takes from its globals and its closure.
        recordings: What it did, by the values and types of a call and Warp's settings, with the inputs to copy.
        outside: The keys of the recordings that use arrays from outside.
    """

    like_kernel: Any = field(repr=False)
    parameters: tuple[WarpParameter, ...] = field(repr=False)
    refers: tuple[Any, ...] = field(repr=False)
    recordings: dict[Any, list[tuple[WarpRecording, tuple[int, ...]]]] = field(
        default_factory=dict, init=False, repr=False
    )
    outside: set[Any] = field(default_factory=set, init=False, repr=False)

    @property
    def results(self) -> list[WarpParameter]:
        """The array parameters that are returned, in order."""
        in_out = [p for p in self.parameters if p.role is Role.IN_OUT]
        return in_out + [p for p in self.parameters if p.role is Role.OUTPUT]

    @property
    def inputs(self) -> list[WarpParameter]:
        """The array parameters that are passed."""
        return [p for p in self.parameters if p.is_array and p.role is not Role.OUTPUT]

    @property
    def buffers(self) -> list[int]:
        """The buffer of each array parameter in a call. An in/out argument has the buffer of its result."""
        numbers = {p.name: index for index, p in enumerate((*self.inputs, *self.results))}
        return [numbers[p.name] for p in self.parameters if p.is_array]

    def arguments(
        self, values: Sequence[bytes], signature: Signature, address: Callable[[int, Any], int], device: Any
    ) -> list[Any]:
        """What the function is called with.

        Args:
            values: The memory of each parameter that is no array.
            signature: The types of the call.
            address: Gives the address of an array from the number of its buffer, and its shape and dtype.
            device: Warp's device that has the memory.
        """
        result, left, buffers = [], iter(values), iter(self.buffers)
        for p, declared in zip(self.parameters, self.like_kernel.adj.args, strict=True):
            if not p.is_array:
                result.append(value_of(next(left), str(_precise(p).dtype), p.inner or (), declared.type))
                continue
            array = signature.arrays[buffer := next(buffers)]
            shape, at = array.extents, address(buffer, array)
            is_open = p.dtype is None or p.inner is None
            element = (
                element_type(array.dtype, tuple(shape[p.ndim :])) if is_open else declared.type.dtype
            )  # a quat, say
            result.append(wp.array(ptr=at, dtype=element, shape=tuple(shape[: p.ndim]), device=device))
        return result

    def latest(self, options: StaticValues, signature: Signature) -> StaticValues:
        """The options with the number of the recording of what the function does now.

        It runs again if it used arrays from outside when it ran before: they may have been replaced.
        """
        with self._lock:
            known = self.recordings.setdefault(key := (options.values, signature, configured()), [])
            if known and key not in self.outside:
                return options
            made = self._record(options, signature)
            if None in made[0].uses:
                self.outside.add(key)
            same = (index for index, (each, _) in enumerate(known) if each.operations == made[0].operations)
            if (number := next(same, len(known))) == len(known):
                known.append(made)
            return msgspec.structs.replace(options, recording=number)

    def recorded(self, options: StaticValues, signature: Signature) -> tuple[WarpRecording, tuple[int, ...]]:
        """What the function does, and the inputs that it gets copies of."""
        key = options.values, signature, configured()
        if not self.recordings.get(key):  # a program of another process calls it
            self.latest(options, signature)
        return self.recordings[key][options.recording]

    def _record(self, options: StaticValues, signature: Signature) -> tuple[WarpRecording, tuple[int, ...]]:
        def arguments(reserve: Callable[[Any], int]) -> list[Any]:
            return self.arguments(options.values, signature, lambda _, array: reserve(array), "cpu")

        made = record(self.name, self.function, arguments)
        uses = {at: made.uses.get(index, frozenset[str]()) for index, at in enumerate(self.buffers)}
        by_name = {p.name: uses[at] for at, p in enumerate((*self.inputs, *self.results)) if at in uses}
        check_not_written(self.name, self.parameters, by_name)
        for at, p in enumerate(self.results, len(self.inputs)):
            if p.role is Role.OUTPUT and only_read(uses[at]) and 0 not in signature.arrays[at].extents:
                raise RecordingError(
                    f"{self.name} cannot be recorded: it does not write to its output {p.name!r}{ADVICE}"
                )
        guarded = (at for at, p in enumerate(self.inputs) if p.role is Role.INPUT and not only_read(uses[at]))
        return made, tuple(guarded)


class StaticValues(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a function is called.

    Attributes:
        values: The memory of each parameter that is no array.
        python_call: Call it in Python each time.
        recording: Number of the recording, of those for equal values and types. There are several if the function used
            other arrays from outside when it ran again.
    """

    values: tuple[bytes, ...]
    python_call: bool
    recording: int = 0


class _Callables(NativeLanguage[_Callable, StaticValues]):
    def compile(self, definition: _Callable, options: StaticValues, signature: Signature, platform: str) -> Compiled:
        arrays, name = len(signature.arrays), definition.name
        if options.python_call:
            guarded, made = tuple(index for index, p in enumerate(definition.inputs) if p.role is Role.INPUT), None
        else:
            made, guarded = definition.recorded(options, signature)
        temporaries, homes = (made.temporaries, made.homes) if made else ((), ())
        count = arrays + len(temporaries) + len(guarded)
        on_one = "it writes to arrays that were not passed, or that lie on one of them. Pass them as arguments."
        one_device = on_one if made and (made.writes_outside or (homes and platform == "cuda")) else ""
        operations = made.on(platform) if made else None
        if made is None or operations is None:
            in_python = functools.partial(_plan_python, definition, options, signature, platform, count)
            target = CPU if platform == "cpu" else CUDA_HOST
            return Compiled(None, functools.partial(in_python, homes), temporaries, guarded, target, one_device)
        buffers = [*definition.buffers, *range(arrays, arrays + len(temporaries))]

        def plan() -> Plan:
            check_homes(name, options.values, homes, platform)
            build = _plan_host if platform == "cpu" else _plan_device
            return build(name, operations, buffers, count, (definition, made))

        if available("cuda") == (platform == "cuda"):
            plan = functools.cache(plan)
            plan()  # now, because what the code of the kernels refers to may change
        in_turn = CUDA_IN_TURN if platform == "cuda" and None in made.uses else None
        return Compiled(made.content(operations, buffers), plan, temporaries, guarded, in_turn, one_device)


LANGUAGE = _Callables(
    LANGUAGES["warp_callable"],
    kernel_kind="Warp callable",
    compiler="Warp",
    options_type=StaticValues,
    local_kernels="it is called in Python, or refers to objects of this process, such as a mesh, or an array that was "
    "not passed. Pass arrays as arguments.",
)


def _plan_host(name: str, operations: Sequence[Any], buffers: Sequence[int], count: int, alive: Any) -> HostPlan:
    """The plan that repeats operations on the CPU."""
    loaded = functools.cache(lambda code, backward: load(code, wp.get_device("cpu"), backward))
    codes = [code and loaded(code, op.launch.backward) for op, code in operations]
    made = [replace(op, entry=code[-1]) if code else op for (op, _), code in zip(operations, codes, strict=True)]
    threads = max((code.threads for _, code in operations if code), default=1)
    context, function = context_of(made, buffers, take_error(threads)), replay()
    shared = None in alive[1].uses or any(code and works_on_tiles(code) for _, code in operations)
    mutex = tile_mutex() if shared else None
    alive = context, function, codes, alive
    return HostPlan(function.address, mutex, ctypes.addressof(context), alive)


def _plan_device(name: str, operations: Sequence[Any], buffers: Sequence[int], count: int, alive: Any) -> DevicePlan:
    """The plan that repeats operations, all of them launches, on CUDA."""
    launches, loaded = recorded_launches(name, operations, buffers, alive[1].homes)
    alignments = alignments_of((code.source for _, code in operations), count)
    return DevicePlan(launches, alignments, (loaded, alive))


def _plan_python(
    definition: _Callable,
    options: StaticValues,
    signature: Signature,
    platform: str,
    count: int,
    homes: Sequence[Any],
) -> HostPlan:
    """The plan that calls the function in Python, on XLA's stream."""
    name = definition.name
    check_homes(name, options.values, homes, platform)

    def call(stream: int, ordinal: int, addresses: Sequence[int]) -> None:
        device = wp.get_device("cpu" if platform == "cpu" else f"cuda:{ordinal}")
        if elsewhere := [home for home in homes if home != device]:
            raise PlatformError(f"it runs on {device}, but uses an array on {elsewhere[0]}. Put both on one.")
        arrays = definition.arguments(options.values, signature, lambda at, _: addresses[at], device)
        scope: Any = wp.ScopedDevice(device) if device.is_cpu else wp.ScopedStream(_stream(ordinal, stream), False)
        with LOCK, scope:
            definition.function(*arrays)

    return python_plan(name, call, count)


@functools.cache
def _stream(ordinal: int, stream: int) -> wp.Stream:
    return wp.Stream(wp.get_cuda_device(ordinal), cuda_stream=stream)


def _program(
    definition: _Callable,
    python_call: bool,
    has_side_effect: bool | None,
    options: WrapperOptions,
    statics: tuple[StaticValue, ...],
) -> Callable[..., list[jax.Array]]:
    """The call as a ``jax.jit`` function of its arrays; the same for equal options."""
    name, like_kernel, results = definition.name, definition.like_kernel, definition.results
    names = [p.name for p in definition.inputs]
    check = functools.partial(check_arrays, name=name, parameters=names)

    def call(*arrays: Any) -> list[jax.Array]:
        check(arrays)
        inputs = [jax.typeof(array) for array in arrays]
        check_known_shapes(inputs, name)
        parameters = concrete(like_kernel, definition.parameters, inputs)
        given = iter(statics)
        wanted = [(next(given), p) for p in parameters if not p.is_array]
        for value, p in wanted:
            value.as_type(like_kernel, p)  # refuses what the parameter cannot hold
        values = tuple(value.as_type(like_kernel, _precise(p)) for value, p in wanted)
        types_of = dict(zip(names, inputs, strict=True))
        shapes = {p.name: tuple(types_of[p.name].shape[: p.ndim]) for p in parameters if p.name in types_of}
        first = next(iter(shapes.values()), ())
        for p in parameters:
            if p.role is Role.OUTPUT:
                shapes[p.name] = output_shape(options, p, first, first, "the first array")
            if p.is_array:
                check_extents(name, p, shapes[p.name])
        by_name = {p.name: p for p in parameters}
        specs = [_spec(by_name[p.name], shapes[p.name]) for p in results]
        Outputs.of(specs, name).check_precision(name)
        aliases = tuple((names.index(p.name), at) for at, p in enumerate(results) if p.role is Role.IN_OUT)
        signature = Signature.of(name, inputs, specs, {index for index, _ in aliases}, with_extents=True)
        how, has_effect = StaticValues(values, python_call), bool(has_side_effect)
        if not python_call:
            how = definition.latest(how, signature)
            has_effect |= has_side_effect is None and definition.recorded(how, signature)[0].writes_outside
        made = KernelCall(
            name,
            tuple((spec.shape, spec.dtype) for spec in specs),
            aliases,
            options.vmap_method,
            has_effect,
            checks=kernel_checks(),
            language=LANGUAGE,
            definition=definition,
            options=how,
            signature=signature,
            settings=configured(),
        )
        return bind(made.with_hidden_outputs(inputs), *arrays)[: len(specs)]

    key = "warp_callable", id(definition), python_call, has_side_effect, options.key, statics, configured()
    return shared(key, lambda: jax.jit(Traced(call, name, names)))


def _precise(p: WarpParameter) -> WarpParameter:
    """The parameter in the type in which the function gets its value: a float is one of Python, which has 64 bits."""
    is_float = str(p.dtype) in ("float16", "bfloat16", "float32")
    return replace(p, dtype="float64") if is_float and not p.inner and not p.is_array else p


def _spec(p: WarpParameter, shape: tuple[int, ...]) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((*shape, *(p.inner or ())), numpy_dtype(str(p.dtype)))
