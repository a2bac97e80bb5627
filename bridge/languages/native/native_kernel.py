"""Makes C functions callable from JAX: :func:`native_kernel`."""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import msgspec
import numpy as np
from numba.core.ccallback import CFunc

from bridge.compat.cpython import C_FUNCTION
from bridge.errors import KernelTypeError, SignatureError
from bridge.ffi.native.addresses import assembled
from bridge.ffi.plans.host import HostPlan
from bridge.ffi.target import CPU, CUDA_HOST, CUDA_HOST_GRAPH
from bridge.kernel.arguments import Signature
from bridge.kernel.definitions import DEFINITIONS
from bridge.kernel.language import CPU_DTYPES, Compiled, NativeLanguage
from bridge.kernel.references import key_of_function
from bridge.kernel.shared_libraries import content_of
from bridge.kernel.wrapper import says_its_call, wrap
from bridge.languages.native.entry import NativeDefinition, entry_code
from bridge.table import LANGUAGES


@functools.partial(says_its_call, is_sent=False)
def native_kernel(
    function: Any,
    outs: Any,
    arguments: Callable[..., Sequence[Any]],
    *,
    argtypes: Sequence[Any] | None = None,
    status: bool = False,
    platform: str = "cpu",
    capturable: bool = False,
    vmap_method: str | None = None,
    input_output_aliases: Mapping[int, int] | None = None,
    has_side_effect: bool = False,
) -> Callable[..., Any]:
    """Makes a C function callable from JAX, with no Python in the call.

    Any compiler may have made the function: of C, C++, Rust, Zig, Fortran or Cython. XLA calls it on its own buffers,
    without the GIL, and from several threads at once. With ``platform="cuda"`` these are in device memory, and the
    function launches kernels, or calls a library that does, on XLA's stream.

    Args:
        function: A function that ctypes, cffi or ``numba.cfunc`` has loaded or made, a PyCapsule of one, as in
            ``__pyx_capi__`` of a Cython module, or its address. It writes every element of its outputs, and no input.
        outs: Shape and dtype of the results: a ``jax.ShapeDtypeStruct``, or a list or pytree of them; or a function of
            the inputs that returns these, as for :func:`bridge.numba_kernel`.
        arguments: Says what the function is called with: a Python function of the inputs and then the outputs, which
            returns a tuple. It runs when JAX traces a call, on objects with shape, ndim, size, itemsize, nbytes and
            dtype. Such an object in the tuple is passed as a pointer to the first element (arrays are C-contiguous),
            ``x.size``, ``x.shape[0]`` and what is computed of them as ``int64_t``, any NumPy scalar by value, ``bytes``
            as ``const char*``, and ``bridge.STREAM`` as ``cudaStream_t``.
        argtypes: The ctypes types of the parameters; by default the ``argtypes`` of ``function``, if it has any. Sizes
            and numbers are converted to them, and passed by address where they are pointers.
        status: Whether the function returns an int that is 0 if the call succeeds. Others make the call an error.
        platform: ``"cpu"``, or ``"cuda"``. There ``arguments`` returns ``bridge.STREAM`` among the rest. The function
            only enqueues work on this stream, on the device that is current, and does not wait for it.
        capturable: Whether XLA may record what the function enqueues into CUDA graphs. Then it must not allocate
            memory, wait, or depend on anything but its arguments, because a replay does not call it.
        vmap_method: As for :func:`bridge.numba_kernel`: by default one call loops over the batch in native code. With
            ``"parallel"`` the function runs on several elements of a batch at the same time.
        input_output_aliases: Pairs of input and output index that share a buffer. The function may then update it.
        has_side_effect: As for :func:`bridge.numba_kernel`.

    Returns:
        A ``jax.jit`` function of the input arrays that returns the results that ``outs`` describes.

    Raises:
        KernelTypeError: ``function`` is no C function, ``arguments`` no Python function, or ``argtypes`` no sequence.
        SignatureError: ``outs`` or another option is malformed; or, when called, the arrays or what
            ``arguments`` returns do not fit the types that are stated.

    A kernel has no derivative of its own; attach one as for :func:`bridge.numba_kernel`. Exported programs find the
    function by the content of its library and its place there. A function in memory alone cannot be exported. If you
    build a library again, load it from another path: the system keeps the code that a process has loaded from a path.

    Example::

        # void scale(const float *x, int64_t n, float factor, float *out);
        library = ctypes.CDLL("./libscale.so")
        scale = native_kernel(
            library.scale, lambda x: x, lambda x, out: (x, x.size, np.float32(2), out)
        )
        scale(jnp.ones(1000))

        # int scale(cudaStream_t stream, const float *x, int64_t n, float *out);
        on_gpu = native_kernel(
            library.scale, lambda x: x, lambda x, out: (STREAM, x, x.size, out), status=True, platform="cuda"
        )
    """
    language = language_for("native_kernel", _LANGUAGES, platform, capturable)
    loaded = function.ctypes if isinstance(function, CFunc) else function
    address, declared = _address_of(loaded), getattr(loaded, "argtypes", None)
    if not callable(arguments) or not isinstance(argtypes, Sequence | None):
        raise KernelTypeError(
            f"native_kernel got arguments={arguments!r} and argtypes={argtypes!r}, expected a function of the arrays, "
            "as lambda x, out: (x, x.size, out), and a list of ctypes types or None."
        )
    if status and declared is not None and loaded.restype is not ctypes.c_int:
        raise SignatureError(f"status is True, but {function!r} has restype {loaded.restype}. Set it to ctypes.c_int.")
    name = getattr(function, "__name__", "native_function")
    stated = declared if argtypes is None else argtypes
    types = None if stated is None else tuple(stated)
    definition = DEFINITIONS.define(
        language,
        (name, address, types, status, key_of_function(arguments)),
        lambda: NativeDefinition(
            name, arguments, None, address, types, status, function, content_of(address), platform == "cuda"
        ),
    )
    options = NativeOptions(capturable)
    return wrap(language, definition, options, outs, vmap_method, input_output_aliases, has_side_effect)


LanguageT = TypeVar("LanguageT", bound=NativeLanguage[Any, Any])


class NativeOptions(msgspec.Struct, frozen=True):
    """How a function is called.

    Attributes:
        capturable: Whether XLA may record what it enqueues into CUDA graphs.
    """

    capturable: bool = False


def compiled(
    code: str, definition: Any, options: NativeOptions, platform: str, context: Callable[[], int], shares: bool = False
) -> Compiled:
    """What is compiled for a call of a function that runs on the host.

    Args:
        code: LLVM code of the function of a :class:`~bridge.ffi.plans.host.HostPlan`.
        definition: The function of the user, whose ``content`` identifies its machine code.
        options: How it is called. On CUDA, whether XLA may record its work decides on the target.
        platform: JAX's name of the platform.
        context: Gives the context of the plan.
        shares: As for the plan.
    """

    def load() -> HostPlan:
        entry = assembled(code)
        return HostPlan(entry.address, context=context(), shares=shares, alive=(entry, definition))

    target = CPU if platform == "cpu" else CUDA_HOST_GRAPH if options.capturable else CUDA_HOST
    return Compiled(definition.content and f"{definition.content}\n{code}", load, target=target)


def language_for(wrapper: str, languages: Mapping[str, LanguageT], platform: str, capturable: bool) -> LanguageT:
    """The language for a platform.

    Raises:
        SignatureError: There is none, or functions of this platform cannot be capturable.
    """
    is_known = isinstance(platform, str) and platform in languages and isinstance(capturable, bool)
    if not is_known or (capturable and platform != "cuda"):
        raise SignatureError(
            f"{wrapper} got platform={platform!r} and capturable={capturable!r}, expected 'cpu' or 'cuda'; only "
            "functions on 'cuda' can be capturable. Pass platform='cuda' for a function that takes a stream."
        )
    return languages[platform]


class _Native(NativeLanguage[NativeDefinition, NativeOptions]):
    def compile(
        self, definition: NativeDefinition, options: NativeOptions, signature: Signature, platform: str
    ) -> Compiled:
        code = entry_code(definition, signature)
        return compiled(code, definition, options, platform, lambda: definition.address, shares=True)


LANGUAGE = _Native(
    LANGUAGES["native"],
    compiler="native_kernel",
    options_type=NativeOptions,
    dtypes=CPU_DTYPES,
    local_kernels="its machine code is in no file. Load it from a shared library, which other processes can load too.",
)
_LANGUAGES = {"cpu": LANGUAGE, "cuda": replace(LANGUAGE, row=LANGUAGES["native_cuda"])}


_NEEDS_GIL = 4
"""The flag of ctypes for functions of Python's C API."""


def _address_of(function: Any) -> int:
    """Where a C function is loaded."""
    kind, address = type(function), None
    if isinstance(function, C_FUNCTION):
        address = None if function._flags_ & _NEEDS_GIL else ctypes.cast(function, ctypes.c_void_p).value
    elif kind.__name__ == "PyCapsule":
        name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))
        content = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
        address = content(("PyCapsule_GetPointer", ctypes.pythonapi))(function, name(function))
    elif kind.__module__ == "_cffi_backend":
        address = int(sys.modules["_cffi_backend"].FFI().cast("intptr_t", function))
    elif isinstance(function, int | np.integer):
        address = int(function)
    if address is None or address <= 1:  # 1 is True
        raise KernelTypeError(
            f"native_kernel got {function!r} of type {kind.__name__}, expected a C function that needs no GIL: of "
            "ctypes, cffi or numba.cfunc, a PyCapsule of one, or its address. Load it, as ctypes.CDLL(path).name."
        )
    return address
