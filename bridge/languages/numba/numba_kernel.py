"""Makes Numba CPU kernels callable from JAX: :func:`numba_kernel`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import FunctionType, MethodType
from typing import Any

import numba
import numpy as np
from numba.core import types
from numba.core.registry import CPUDispatcher, cpu_target
from numba.np.numpy_support import from_dtype

from bridge.compat.numba import again, takes_new_types
from bridge.debug.mode import current_mode
from bridge.errors import KernelCompileError, KernelTypeError
from bridge.kernel.arguments import ArrayType, Signature
from bridge.kernel.definitions import DEFINITIONS
from bridge.kernel.language import CPU_DTYPES, Compiled, Definition, NativeLanguage, NoOptions
from bridge.kernel.refused import refused
from bridge.kernel.wrapper import says_its_call, wrap
from bridge.languages.numba.carried_object import object_of
from bridge.languages.numba.kernel_code import changed_inputs, code_of
from bridge.languages.numba.linking import load
from bridge.table import LANGUAGES


@says_its_call
def numba_kernel(
    kernel: Callable[..., None],
    outs: Any,
    *,
    vmap_method: str | None = None,
    input_output_aliases: Mapping[int, int] | None = None,
    has_side_effect: bool = False,
) -> Callable[..., Any]:
    """Makes a Numba CPU kernel callable from JAX, with no Python in the call.

    The kernel is compiled when JAX traces the call, for the dtypes and ranks of that call. XLA then runs the machine
    code on its own buffers, without the GIL.

    Args:
        kernel: A function decorated with ``numba.njit`` (``parallel=True``, explicit signatures, closures and other
            compiler options included), called as ``kernel(input, ..., output, ...)`` with C-contiguous NumPy arrays. It
            writes every element of its outputs, and returns nothing. Inputs are read-only.
        outs: Shape and dtype of the results: a ``jax.ShapeDtypeStruct``, or a list or pytree of them. The kernel gets
            the outputs in the order of ``jax.tree.leaves(outs)``: for a dict, sorted by key. Or a function that returns
            these. It gets the inputs (anything with shape and dtype, no values), and runs when JAX traces a call:
            ``outs=lambda x, y: jax.ShapeDtypeStruct(x.shape, x.dtype)``.
        vmap_method: How ``jax.vmap`` runs the kernel. By default (and with ``"expand_dims"``) one call loops over the
            batch in native code. ``"parallel"`` lets the threads that XLA computes with share the batch on a CPU, if it
            takes 20 us or more: for kernels of which one element takes microseconds. They may run elements in any
            order and at the same time, and a failed call has the error of one of those that raised. A kernel with
            ``has_side_effect`` or with parallel loops, which share the threads already, gets the elements in turn.
            ``"broadcast_all"`` also repeats the arguments that are not batched; ``"sequential"``
            and ``"sequential_unrolled"`` make one call for each element. The kernel always sees one element, and the
            result is the same.
        input_output_aliases: Pairs of input and output index that share a buffer. The kernel may write to such an
            input. If the caller still needs the input's value (it was not donated), XLA passes a copy. Where a loop
            carries the result on to the input, an alias saves the copy of each turn.
        has_side_effect: Run the kernel even if nothing uses its results: one that prints, writes to a file, or counts.
            By default JAX and XLA drop such a call.

    Returns:
        A ``jax.jit`` function of the input arrays. It returns one array if ``outs`` is one struct, else the same list
        or pytree of arrays. Wrapping the same kernel with equal arguments returns the same function.

    Raises:
        KernelTypeError: ``kernel`` was not made by ``numba.njit``.
        SignatureError: ``outs``, ``vmap_method`` or ``input_output_aliases`` is malformed; or, when
            called, the number, dtype or shape of the arguments does not fit.
        KernelCompileError: When called: Numba cannot compile the kernel for these types; it writes to an input that is
            not aliased; it takes a JAX array from its closure or its globals (pass it as an argument); or a dtype is
            not supported.

    An exception that the kernel raises reaches the caller as a JAX runtime error with its type and message. Numba does
    not check indices by default: one that is out of bounds, as where ``outs`` is too small, reads or overwrites other
    memory. While you write a kernel, call it in :func:`bridge.debug_mode`, decorate it with
    ``numba.njit(boundscheck=True)``, or set the environment variable ``NUMBA_BOUNDSCHECK=1``; such an index then is an
    ``IndexError`` with the kernel's name, in parallel loops too.

    Arrays may be float16 or bfloat16, which Numba itself has not on CPUs: their elements are computed with in float32,
    and rounded when they are stored. ``x.dtype.type(value)`` and ``np.float16(value)`` round a number. In a
    kernel, ``np.finfo`` of such a dtype describes float32, and ``np.dot`` needs ``x.astype(np.float32)``.

    A kernel has no derivative of its own. To attach one::

        @jax.custom_vjp
        def square(x):
            return square_kernel(x)

        square.defvjp(lambda x: (square_kernel(x), x), lambda x, g: (2 * x * g,))

    Example::

        @numba.njit
        def add(x, y, out):
            for i in range(out.size):
                out[i] = x[i] + y[i]

        add_fn = numba_kernel(add, jax.ShapeDtypeStruct((512,), jnp.float32))
        add_fn(a, b)
    """
    if not isinstance(kernel, CPUDispatcher):
        if numba.config.DISABLE_JIT:
            why = "NUMBA_DISABLE_JIT=1 makes numba.njit return the Python function. Unset it."
        elif isinstance(kernel, MethodType):
            why = "It is bound to an instance, its first argument. Put @staticmethod above numba.njit."
        elif hasattr(kernel, "adj"):
            why = "This is a kernel of Warp: call jax_kernel."
        elif callable(kernel) and not isinstance(kernel, FunctionType):
            why = "Pass one that calls it, as numba.njit(lambda x, out: f(x, out, 2.0))."
        else:
            why = "Decorate it."
        raise KernelTypeError(
            f"numba_kernel got {kernel!r} of type {type(kernel).__name__}, expected a function decorated with "
            f"numba.njit. {why}"
        )
    definition = DEFINITIONS.define(LANGUAGE, id(kernel), lambda: NumbaDefinition.of(kernel))
    if count := definition.recompilations():  # JAX keeps what it traced before
        definition = DEFINITIONS.define(LANGUAGE, (id(kernel), count), lambda: NumbaDefinition.of(kernel))
    return wrap(LANGUAGE, definition, NoOptions(), outs, vmap_method, input_output_aliases, has_side_effect)


@dataclass(frozen=True, eq=False)
class NumbaDefinition(Definition):
    """A function that is decorated with ``numba.njit``.

    Attributes:
        dispatcher: Numba's dispatcher, which the decorator made.
    """

    dispatcher: CPUDispatcher = field(repr=False)
    _overloads: list[dict[Any, Any]] = field(default_factory=lambda: [{}], init=False, repr=False)

    @classmethod
    def of(cls, dispatcher: CPUDispatcher) -> NumbaDefinition:
        function = dispatcher.py_func
        return cls(function.__name__, function, function, dispatcher)

    def recompilations(self) -> int:
        """How often ``dispatcher.recompile`` has replaced machine code, as far as the bridge has seen.

        Numba freezes globals when it compiles, and this method of the dispatcher is how a user has them read again.
        """
        now, known = dict(self.dispatcher.overloads), self._overloads[-1]
        if any(now.get(types) is not compiled for types, compiled in known.items()):
            self._overloads.append(now)
        else:
            self._overloads[-1] = known | now  # a new one: another thread may be reading the old one
        return len(self._overloads) - 1


class _NumbaCpu(NativeLanguage[NumbaDefinition, NoOptions]):
    def settings(self, definition: NumbaDefinition) -> tuple[bool, int]:
        return current_mode().bounds, definition.recompilations()

    def compile(self, definition: NumbaDefinition, options: NoOptions, signature: Signature, platform: str) -> Compiled:
        array_types = tuple(map(_numba_type, signature.arrays))
        compiled = _compile(definition, array_types)
        definition.recompilations()  # knows this code from now on
        code = code_of(compiled, definition.name)
        return Compiled(
            code,
            lambda: load(compiled, array_types, definition.name),
            guarded=changed_inputs(compiled, array_types),
            carry=lambda: object_of(compiled, array_types, definition.name, code),
        )


LANGUAGE = _NumbaCpu(
    LANGUAGES["numba"],
    compiler="Numba's CPU target",
    options_type=NoOptions,
    dtypes=CPU_DTYPES,
    with_extents=False,
)


_HALVES = ("float16", "bfloat16")


def _numba_type(array: ArrayType) -> types.Array:
    """Numba's type of a C-contiguous array."""
    return types.Array(_item_type(array.dtype), array.rank, "C", readonly=not array.writable)


def _item_type(dtype: str) -> types.Type:
    if dtype in _HALVES:
        from bridge.languages.numba.half_precision import BFLOAT16, FLOAT16  # registers them with Numba

        return BFLOAT16 if dtype == "bfloat16" else FLOAT16
    return from_dtype(np.dtype(dtype))


def _compile(definition: NumbaDefinition, array_types: tuple[types.Array, ...]) -> Any:
    """Numba's ``CompileResult`` of a kernel.

    Args:
        definition: The kernel.
        array_types: Types of its arguments.

    Raises:
        KernelCompileError: Numba refuses the kernel for these types, or it returns a value.
    """
    _check_declared(definition, array_types)
    dispatcher = _with_parameters(definition, len(array_types))
    try:
        compiled = _compiled(dispatcher, array_types)
    except Warning:
        raise  # the user has made it an error
    except Exception as error:
        raise refused(definition, array_types, error) from error
    if compiled.objectmode:
        raise KernelCompileError(f"{definition.name} compiles in object mode, which needs Python. Use numba.njit.")
    if compiled.signature.return_type != types.none:
        raise KernelCompileError(
            f"{definition.name} returns {compiled.signature.return_type}, expected no return value. "
            "Add an output parameter after the inputs, and write out[...] = ... instead."
        )
    return compiled


def _compiled(dispatcher: CPUDispatcher, array_types: tuple[types.Array, ...]) -> Any:
    try:
        if not any(array.dtype.name in _HALVES for array in array_types):
            dispatcher.compile(array_types)
            return dispatcher.overloads[array_types]
    except NotImplementedError as error:
        if str(error) != "float16":  # the kernel has no such array, but uses np.float16
            raise
    from bridge.languages.numba.half_precision import known_to_numba

    with known_to_numba():
        dispatcher.compile(array_types)
    return dispatcher.overloads[array_types]


def _check_declared(definition: NumbaDefinition, array_types: tuple[types.Array, ...]) -> None:
    """Raises KernelCompileError if a kernel with explicit signatures has none for these types."""
    if takes_new_types(definition.dispatcher):
        return
    declared = [signature.args for signature in definition.dispatcher.nopython_signatures]
    writable = [types.Array(array.dtype, array.ndim, "C") for array in array_types]
    for signature in declared:
        if len(signature) == len(writable) and all(
            given.can_convert_to(cpu_target.typing_context, wanted) is not None
            for given, wanted in zip(writable, signature, strict=True)
        ):
            return
    raise KernelCompileError(
        f"{definition.name} is declared for {'; '.join(map(_listed, declared))}, but was called with "
        f"{_listed(writable)}. Convert the arguments, or declare this signature too."
    )


def _with_parameters(definition: NumbaDefinition, count: int) -> CPUDispatcher:
    """A dispatcher of ``count`` positional parameters; Numba fills in the kernel's defaults and ``*args``."""
    # The user's own dispatcher where possible: it shares its compile cache. Else one that takes read-only arrays.
    dispatcher = definition.dispatcher
    options = {**dispatcher.targetoptions, "boundscheck": True} if current_mode().bounds else dispatcher.targetoptions
    if not takes_new_types(dispatcher) or options != dispatcher.targetoptions:
        dispatcher = again(dispatcher, options)
    parameters = inspect.signature(definition.function).parameters.values()
    plain = all(parameter.kind is not parameter.VAR_POSITIONAL for parameter in parameters)
    if plain and len(parameters) == count:
        return dispatcher
    names = ", ".join(f"array{index}" for index in range(count))
    namespace: dict[str, Any] = {"dispatcher": dispatcher}
    exec(f"def call({names}): return dispatcher({names})", namespace)
    call = namespace["call"]
    call.__name__ = call.__qualname__ = definition.name  # it may be no identifier: a lambda has no name
    return numba.njit(call)


def _listed(array_types: Iterable[types.Type]) -> str:
    return f"({', '.join(map(str, array_types))})"
