"""Makes C functions callable from JAX: :func:`native_kernel`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bridge.errors import KernelTypeError
from bridge.ffi.plans.host import HostPlan
from bridge.languages.definitions import DEFINITIONS
from bridge.languages.language import Compiled, Definition, NativeLanguage, NoOptions, Standing
from bridge.languages.native_cpu.arguments import arguments_of
from bridge.languages.native_cpu.entry import entry
from bridge.languages.native_cpu.functions import CFunction, c_function
from bridge.languages.wrapper import says_its_call, wrap
from bridge.signature.array_types import Signature
from bridge.source.shared_libraries import content_of


@says_its_call
def native_kernel(
    function: Any,
    outs: Any,
    arguments: Callable[..., Sequence[Any]],
    *,
    argtypes: Sequence[Any] | None = None,
    status: bool = False,
    vmap_method: str | None = None,
    input_output_aliases: Mapping[int, int] | None = None,
) -> Callable[..., Any]:
    """Makes a C function callable from JAX on the CPU, with no Python in the call.

    Any compiler may have made the function: of C, C++, Rust, Zig, Fortran or Cython. XLA calls it on its own buffers,
    without the GIL, and from several threads at once.

    Args:
        function: A function that ctypes, cffi or ``numba.cfunc`` has loaded or made, a PyCapsule of one, as in
            ``__pyx_capi__`` of a Cython module, or its address. It writes every element of its outputs, and no input.
        outs: Shape and dtype of the results: a ``jax.ShapeDtypeStruct``, or a list or pytree of them; or a function of
            the inputs that returns these, as for :func:`bridge.numba_kernel`.
        arguments: Says what the function is called with: a Python function of the inputs and then the outputs, which
            returns a tuple. It runs when JAX traces a call. An array in the tuple is passed as a pointer to its first
            element (arrays are C-contiguous), ``x.size`` and ``x.shape[0]`` as ``int64_t``, a NumPy scalar by value,
            ``bytes`` as ``const char*``.
        argtypes: The ctypes types of the parameters; by default those of ``function``, if it has any. Sizes and numbers
            are converted to them, and passed by address where they are pointers.
        status: Whether the function returns an int that is 0 if the call succeeds. Others make the call an error.
        vmap_method: As for :func:`bridge.numba_kernel`: by default one call loops over the batch in native code.
        input_output_aliases: Pairs of input and output index that share a buffer. The function may then update it.

    Returns:
        A ``jax.jit`` function of the input arrays that returns the results that ``outs`` describes.

    Raises:
        KernelTypeError: ``function`` is no C function, or ``arguments`` no Python function.
        SignatureError: ``argtypes``, ``outs`` or another option is malformed; or, when called, the arrays or what
            ``arguments`` returns do not fit the types that are stated.

    A kernel has no derivative of its own; attach one as for :func:`bridge.numba_kernel`. Exported programs find the
    function by the content of its library and its place there. A function in memory alone cannot be exported.

    Example::

        # void scale(const float *x, int64_t n, float factor, float *out);
        library = ctypes.CDLL("./libscale.so")
        scale = native_kernel(
            library.scale, lambda x: x, lambda x, out: (x, x.size, np.float32(2), out)
        )
        scale(jnp.ones(1000))
    """
    called = c_function(function, argtypes, status)
    if not callable(arguments):
        raise KernelTypeError(
            f"native_kernel got arguments={arguments!r}, expected a function of the inputs and outputs that returns "
            "what the C function is called with, as lambda x, out: (x, x.size, out)."
        )
    own = getattr(arguments, "__name__", "<lambda>")
    name = called.name or ("native_function" if own == "<lambda>" else own)
    definition = DEFINITIONS.define(
        LANGUAGE, (called, id(arguments)), lambda: NativeDefinition(name, arguments, None, called)
    )
    return wrap(LANGUAGE, definition, NoOptions(), outs, vmap_method, input_output_aliases)


@dataclass(frozen=True, eq=False)
class NativeDefinition(Definition):
    """A C function; ``function`` says what it is called with.

    Attributes:
        called: The C function.
    """

    called: CFunction = field(repr=False)


DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32",
    "float64", "complex64", "complex128",
)  # fmt: skip
"""Names of the dtypes that kernels may take and return."""


class _Native(NativeLanguage[NativeDefinition, NoOptions]):
    def compile(
        self, definition: NativeDefinition, options: NoOptions, signature: Signature, platform: str
    ) -> Compiled:
        called, name = definition.called, definition.name
        arguments = arguments_of(name, definition.function, called.argtypes, signature)
        content = content_of(called.address)

        def load() -> HostPlan:
            loaded, held = entry(called.address, name, arguments, called.status)
            sizes = signature.input_sizes, signature.output_sizes
            return HostPlan(name, loaded.address, *sizes, alive=(loaded, held, definition))

        return Compiled(content and repr((content, arguments, called.status)), load)


LANGUAGE = _Native(
    "native",
    {"cpu": Standing.REGULAR},
    kernel_kind="native function",
    wrapper="native_kernel",
    compiler="native_kernel",
    options_type=NoOptions,
    dtypes=DTYPES,
    with_extents=False,
    local_kernels="its machine code is in no file. Load it from a shared library, which other processes can load too.",
)
