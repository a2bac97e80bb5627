"""Numba CPU kernels as JAX operations: :func:`numba_kernel`."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numba
from numba.core import types
from numba.core.registry import CPUDispatcher, cpu_target
from numba.np.numpy_support import from_dtype

from bridge.errors import KernelCompileError, KernelTypeError
from bridge.ffi.kernel_call import Compiled
from bridge.ffi.target import CPU, Entry
from bridge.languages.numba_cpu.entry import build_plan
from bridge.languages.numba_cpu.parallel import Failures, reporting_compiler
from bridge.languages.wrapper import wrap
from bridge.signature.outputs import ArrayType
from bridge.source.captured import captured_error
from bridge.source.content import function_digest, undefined_kernel
from bridge.source.imports import hoist_imports

_LANGUAGE = "numba"

DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float32", "float64", "complex64", "complex128",
)  # fmt: skip
"""Names of the dtypes that kernels may take and return."""


def numba_kernel(
    kernel: Callable[..., None],
    outs: Any,
    *,
    vmap_method: str | None = None,
    input_output_aliases: Mapping[int, int] | None = None,
) -> Callable[..., Any]:
    """Makes a Numba CPU kernel callable from JAX, with no Python in the call.

    The kernel is compiled when JAX traces the call, for the dtypes and ranks of that call. XLA then runs the machine
    code on its own buffers, without the GIL. Importing the bridge sets GOMP_SPINCOUNT, unless it or OMP_WAIT_POLICY is
    set, so that the idle threads of a ``parallel=True`` kernel under GNU's OpenMP do not keep busy ones off the cores.

    Args:
        kernel: A function decorated with ``numba.njit`` (``parallel=True``, explicit signatures, closures and other
            compiler options included), called as ``kernel(input, ..., output, ...)`` with C-contiguous NumPy arrays. It
            writes its results into the outputs, every element of them, and returns nothing. Inputs are read-only.
        outs: Shape and dtype of the results: a ``jax.ShapeDtypeStruct``, or a list or pytree of them. The kernel gets
            the outputs in the order of ``jax.tree.leaves(outs)``: for a dict, sorted by key. Or a function that returns
            these. It gets the inputs (anything with shape and dtype, no values), and runs when JAX traces a call:
            ``outs=lambda x, y: jax.ShapeDtypeStruct(x.shape, x.dtype)``.
        vmap_method: How ``jax.vmap`` runs the kernel. By default (and with ``"expand_dims"``) one call loops over the
            batch in native code. ``"broadcast_all"`` also repeats the arguments that are not batched; ``"sequential"``
            and ``"sequential_unrolled"`` make one call for each element. The kernel always sees one element, and the
            result is the same.
        input_output_aliases: Pairs of input and output index that share a buffer. The kernel may write to such an
            input. Where the caller still needs the input's value (it was not donated), XLA passes a copy.

    Returns:
        A ``jax.jit`` function of the input arrays that returns what ``outs`` describes: one array for one struct, else
        the same list or pytree of arrays. Wrapping the same kernel twice returns the same function.

    Raises:
        KernelTypeError: ``kernel`` was not made by ``numba.njit``.
        SignatureError: ``outs``, ``vmap_method`` or ``input_output_aliases`` is malformed; or, when called, the number,
            dtype or shape of the arguments does not fit.
        KernelCompileError: When called: Numba cannot compile the kernel for these types; it writes to an input that is
            not aliased; it takes a JAX array from its closure or its globals (pass it as an argument); or a dtype is
            not supported (float16 and bfloat16: convert to float32 before the call).

    Warns:
        UnwrittenOutputWarning: When called: the source of the kernel never writes to an output.

    An exception that the kernel raises reaches the caller as a JAX runtime error with its type and message. Numba does
    not check indices by default: one that is out of bounds reads or overwrites other memory. While you write a kernel,
    decorate it with ``numba.njit(boundscheck=True)``, or set the environment variable ``NUMBA_BOUNDSCHECK=1``; such an
    index then is an ``IndexError`` with the kernel's name, in parallel loops too.

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
        raise KernelTypeError(
            f"numba_kernel got {kernel!r} of type {type(kernel).__name__}, expected a function decorated with "
            "numba.njit."
        )
    return wrap(_definition(kernel), outs, vmap_method, input_output_aliases)


class _Definition:
    """One kernel as the user defined it, and its entries by argument types: one object for each content."""

    target = CPU

    def __init__(self, dispatcher: CPUDispatcher, digest: str):
        self.function = self.source_function = dispatcher.py_func
        self.name = self.function.__name__
        self.dispatcher = dispatcher
        self.digest = digest
        self._place = f"{self.function.__code__.co_filename}:{self.function.__code__.co_firstlineno}"
        self._parameters = list(inspect.signature(self.function).parameters.values())
        self._entries: dict[tuple[ArrayType, ...], Entry] = {}

    def code(self, inputs: Sequence[Any], outputs: Sequence[Any], writable: frozenset[int]) -> Compiled:
        """The kernel compiled for these dtypes and ranks, see :class:`bridge.languages.wrapper.Kernel`."""
        arrays = [ArrayType(array.dtype, array.ndim, index in writable) for index, array in enumerate(inputs)]
        arrays += [ArrayType(spec.dtype, len(spec.shape), True) for spec in outputs]
        return Compiled(CPU, self.typed_entry(tuple(arrays), len(inputs)))

    def typed_entry(self, arrays: tuple[ArrayType, ...], input_count: int) -> Entry:
        """The entry for these argument types, compiled now if it is new."""
        entry = self._entries.get(arrays)
        if entry is None:
            description = (
                f"{_LANGUAGE}:{self.name}:{self.digest} "
                f"{' '.join(map(str, arrays[:input_count]))} -> {' '.join(map(str, arrays[input_count:]))}"
            )
            entry = CPU.publish(description, lambda: self._build(arrays, input_count))
            self._entries[arrays] = entry
        return entry

    def _build(self, arrays: tuple[ArrayType, ...], input_count: int) -> tuple[int, Any]:
        array_types = [self._numba_type(array) for array in arrays]
        failures = Failures(self.name) if self.dispatcher.targetoptions.get("parallel") else None
        compiled = self._compile(tuple(array_types), failures)
        return build_plan(compiled, array_types, input_count, self.name, failures)

    def _numba_type(self, array: ArrayType) -> types.Array:
        if array.dtype.name not in DTYPES:
            cure = (
                "Convert it to float32 before the call."
                if array.dtype.name in ("float16", "bfloat16")
                else f"Supported are {', '.join(DTYPES)}."
            )
            raise KernelCompileError(f"{self.name}: Numba's CPU target has no {array.dtype.name} arrays. {cure}")
        return types.Array(from_dtype(array.dtype), array.rank, "C", readonly=not array.writable)

    def _compile(self, array_types: tuple[types.Array, ...], failures: Failures | None) -> Any:
        self._check_declared(array_types)
        dispatcher = self._with_parameters(len(array_types), failures)
        try:
            dispatcher.compile(array_types)
            compiled = dispatcher.overloads[array_types]
        except Warning:
            raise  # the user has made it an error
        except Exception as error:
            if (captured := captured_error(self.name, self._place, self.function)) is not None:
                raise captured from None
            hint = (
                "\nInputs are read-only, because JAX arrays are immutable: write to an output, or alias the input to "
                "one with input_output_aliases."
                if "Cannot modify readonly" in str(error)
                else ""
            )
            raise KernelCompileError(
                f"Numba cannot compile {self.name} ({self._place}) for {_listed(array_types)}:\n{error}{hint}"
            ) from error
        if compiled.objectmode:
            raise KernelCompileError(f"{self.name} compiles in object mode, which needs Python. Use numba.njit.")
        if compiled.signature.return_type != types.none:
            raise KernelCompileError(
                f"{self.name} returns {compiled.signature.return_type}, expected no return value. "
                "Write the result into an output array."
            )
        return compiled

    def _check_declared(self, array_types: tuple[types.Array, ...]) -> None:
        """Holds a kernel with explicit signatures to them."""
        if self.dispatcher._can_compile:
            return
        declared = [signature.args for signature in self.dispatcher.nopython_signatures]
        writable = [types.Array(array.dtype, array.ndim, "C") for array in array_types]
        for signature in declared:
            if len(signature) == len(writable) and all(
                given.can_convert_to(cpu_target.typing_context, wanted) is not None
                for given, wanted in zip(writable, signature, strict=True)
            ):
                return
        raise KernelCompileError(
            f"{self.name} is declared for {'; '.join(map(_listed, declared))}, but was called with "
            f"{_listed(writable)}. Convert the arguments, or declare this signature too."
        )

    def _with_parameters(self, count: int, failures: Failures | None) -> CPUDispatcher:
        """A dispatcher of ``count`` positional parameters; Numba fills in the kernel's defaults and ``*args``."""
        dispatcher = self._compilable(failures)
        plain = all(parameter.kind is not parameter.VAR_POSITIONAL for parameter in self._parameters)
        if plain and len(self._parameters) == count:
            return dispatcher
        parameters = ", ".join(f"array{index}" for index in range(count))
        name = self.name if self.name.isidentifier() else "kernel"  # a lambda has no name
        namespace = {"__dispatcher": dispatcher}
        exec(f"def {name}({parameters}): return __dispatcher({parameters})", namespace)
        return numba.njit(namespace[name])

    def _compilable(self, failures: Failures | None) -> CPUDispatcher:
        """A dispatcher that takes read-only arrays: the user's own where possible, which shares its compile cache."""
        function = hoist_imports(self.dispatcher.py_func)
        if self.dispatcher._can_compile and function is self.dispatcher.py_func and failures is None:
            return self.dispatcher
        pipeline = self.dispatcher._compiler.pipeline_class
        return CPUDispatcher(
            function,
            locals=self.dispatcher.locals,
            targetoptions=self.dispatcher.targetoptions,
            pipeline_class=reporting_compiler(pipeline, failures) if failures else pipeline,
        )


def _listed(array_types: Iterable[types.Type]) -> str:
    return f"({', '.join(map(str, array_types))})"


_definitions: weakref.WeakValueDictionary[str, _Definition] = weakref.WeakValueDictionary()
_digests: weakref.WeakKeyDictionary[CPUDispatcher, str] = weakref.WeakKeyDictionary()


def _definition(dispatcher: CPUDispatcher) -> _Definition:
    digest = _digests.get(dispatcher)
    if digest is None:
        digest = function_digest(dispatcher.py_func, dispatcher.targetoptions, dispatcher.locals)
        _digests[dispatcher] = digest
    definition = _definitions.get(digest)
    if definition is None:
        definition = _definitions.setdefault(digest, _Definition(dispatcher, digest))
    return definition


def _resolve(description: str) -> Entry:
    """The entry for a call that another process described: its kernel must have been wrapped in this one."""
    kernel, *types_ = description.split(" ")
    _, name, digest = kernel.split(":")
    definition = _definitions.get(digest)
    if definition is None:
        raise undefined_kernel("Numba kernel", name, digest, "numba_kernel")
    arrow = types_.index("->")
    arrays = tuple(map(ArrayType.parse, types_[:arrow] + types_[arrow + 1 :]))
    return definition.typed_entry(arrays, arrow)


CPU.resolve_with(_LANGUAGE, _resolve)
