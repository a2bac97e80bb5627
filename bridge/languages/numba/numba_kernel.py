"""Makes Numba CPU kernels callable from JAX: :func:`numba_kernel`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FunctionType, MethodType
from typing import Any

import numba
from numba.core.registry import CPUDispatcher

from bridge.debug.mode import checks_bounds
from bridge.errors import KernelTypeError
from bridge.kernel.arguments import Signature
from bridge.kernel.definitions import DEFINITIONS
from bridge.kernel.language import CPU_DTYPES, Compiled, NativeLanguage, NoOptions
from bridge.kernel.wrapper import says_its_call, wrap
from bridge.languages.numba.carried_object import object_of
from bridge.languages.numba.compilation import NumbaDefinition, compile_kernel, numba_type
from bridge.languages.numba.identity import code_of
from bridge.languages.numba.linking import load
from bridge.languages.numba.read_only import changed_inputs
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
        or pytree of arrays. Wrapping the same kernel twice returns the same function.

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


class _NumbaCpu(NativeLanguage[NumbaDefinition, NoOptions]):
    def settings(self, definition: NumbaDefinition) -> tuple[bool, int]:
        return checks_bounds(), definition.recompilations()

    def compile(self, definition: NumbaDefinition, options: NoOptions, signature: Signature, platform: str) -> Compiled:
        types = tuple(map(numba_type, signature.arrays))
        compiled = compile_kernel(definition, types)
        definition.recompilations()  # knows this code from now on
        code = code_of(compiled, definition.name)
        return Compiled(
            code,
            lambda: load(compiled, types, definition.name),
            guarded=changed_inputs(compiled, types),
            carry=lambda: object_of(compiled, types, definition.name, code),
        )


LANGUAGE = _NumbaCpu(
    LANGUAGES["numba"],
    kernel_kind="Numba kernel",
    compiler="Numba's CPU target",
    options_type=NoOptions,
    dtypes=CPU_DTYPES,
    with_extents=False,
)
