"""Every public function of the bridge: which error a bad input gives, and what its message says.

What was received, what was expected, and what to do, in the words of :data:`ERRORS`. Kernels that are wrong are in the
tests of their language.
"""

import ctypes
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest

import bridge
from suites.unit.bridge import kernels, warp_kernels
from suites.unit.bridge.copies_in_blocks import block_copy, tile_copy

Spec = jax.ShapeDtypeStruct
X = jnp.arange(1.0, 5.0)
OUT = Spec((4,), np.float32)


class Row(NamedTuple):
    """The error that a call gives, a pattern for its message, and the call."""

    error: type[Exception]
    message: str
    call: Any
    args: tuple[Any, ...]
    options: dict[str, Any]


def bad(error, message, call, *args, **options):
    return Row(error, message, call, args, options)


signature, kernel_type, launch, parameter, backend_error = (
    functools.partial(bad, getattr(bridge, f"{name}Error"))
    for name in ("Signature", "KernelType", "Launch", "Parameter", "Backend")
)


def wrapping(name, wrap):
    """Rows for what all wrappers of one kernel check in the same way; ``wrap`` takes ``outs`` and options."""
    place = rf"{name}: outs, a function of the inputs \(.*test_error_inputs\.py:\d+\)"
    return [
        signature(rf"{name}: outs contains None of type NoneType, expected jax\.Shape", wrap, None),
        signature(rf"{place}, raised TypeError: .* missing .* 'y'\. It was called", lambda: wrap(lambda x, y: x)(X)),
        signature(f"{name}: vmap_method is 'all', expected one of", wrap, vmap_method="all"),
        signature("maps two inputs to one output", wrap, input_output_aliases={0: 0, 1: 0}),
        signature(rf"{name}: argument 0 .*is a list, expected an array", lambda: wrap()([1.0])),
        signature(rf"{name} got x by name, .* Call {name}\(", lambda: wrap()(x=X)),
    ]


def wrap_copy(outs=OUT, **options):
    return bridge.numba_kernel(kernels.copy, outs, **options)


def call_copy(*args, outs=OUT, **options):
    return wrap_copy(outs, **options)(*args)


NUMBA = [
    kernel_type(r"numba_kernel got <built-in .* decorated with numba\.njit", bridge.numba_kernel, print, OUT),
    kernel_type("kernel of Warp: call jax_kernel", bridge.numba_kernel, warp_kernels.scale, OUT),
    signature(r"of shape \(-4,\) .* at least 0", wrap_copy, Spec((-4,), np.int8)),
    *wrapping("copy", wrap_copy),
    signature("input_output_aliases is .*, expected a dict from input index", wrap_copy, input_output_aliases={-1: 0}),
    signature(r"copy\(x, out\) got 2 inputs .* too many .* A kernel returns nothing: it has", call_copy, X, X),
    bad(bridge.KernelCompileError, "no float8_e5m2 arrays. Convert it to float32", call_copy, X.astype("float8_e5m2")),
    signature("output 0 is declared float64, .*jax_enable_x64", call_copy, X, outs=Spec((4,), float)),
]  # fmt: skip


MEMMOVE = ctypes.CDLL(None).memmove


def move(x, out):
    return out, x, np.uint64(16)


def wrap_native(outs=OUT, arguments=move, function=MEMMOVE, **options):
    return bridge.native_kernel(function, outs, arguments, **options)


def call_native(arguments, x=X, **options):
    return wrap_native(arguments=arguments, **options)(x)


TUPLE = r"memmove: arguments \(.*test_error_inputs\.py:\d+\) returned"
NATIVE = [
    kernel_type("native_kernel got <_FuncPtr .* of type _FuncPtr, expected a C function that needs no GIL: of ctypes,",
        wrap_native, function=ctypes.pythonapi.Py_IncRef),
    kernel_type("arguments=3 and argtypes=None, expected a function of the arrays", wrap_native, arguments=3),
    signature("platform='gpu' and capturable=False, expected 'cpu' or 'cuda'; only", wrap_native, platform="gpu"),
    signature(r"has bridge\.STREAM, which calls on the CPU do", call_native, lambda x, out: (out, bridge.STREAM)),
    signature(r"leaves out bridge\.STREAM\. Return it where", call_native, lambda x, out: (out, x), platform="cuda"),
    signature(rf"{TUPLE} 2 items, expected a tuple of 1, as many as argtypes has",
        call_native, lambda x, out: (x, out), argtypes=[ctypes.c_void_p]),
    signature("leaves out output 0. Return it too", call_native, lambda x, out: (x,)),
    signature(r"item 1 is 3 of type int, whose C type is not stated\. Pass", call_native, lambda x, out: (out, 3)),
    *wrapping("memmove", wrap_native),
]  # fmt: skip


# CUDA kernels, wrapped where there is no GPU.


def cuda_copy():
    @numba.cuda.jit
    def copy(x, out):
        out[0] = x[0]

    return copy


def launch_copy(x, out, stream):
    """A function that launches kernels."""


def wrap_cuda(outs=OUT, **options):
    return bridge.numba_cuda_kernel(cuda_copy(), outs, **options)


SOURCE = 'extern "C" __global__ void copy(const float* x, float* out, int n) { if (n) out[0] = x[0]; }'


def wrap_raw(outs=OUT, source=SOURCE, name="copy", **options):
    return bridge.cuda_raw_kernel(source, name, outs, **{"scalars": (np.int32(1),), "launch_dims": 4, **options})


NUMBA_CUDA = [
    kernel_type(r"numba_cuda_kernel got 3 of type int, expected", bridge.numba_cuda_kernel, 3, OUT, launch_dims=4),
    launch(r"neither \(grid, block\) nor launch_dims given", wrap_cuda),
    launch(r"grid is 1\.5, expected integers; 1\.5 is of type float", wrap_cuda, grid=1.5, block=1),
    launch("launch_dims is 1099511627776, which is 4294967296 blocks", wrap_cuda, launch_dims=2**40),
    *wrapping("copy", functools.partial(wrap_cuda, launch_dims=4)),
]  # fmt: skip
NUMBA_CUDA_CALLABLE = [
    kernel_type("numba_cuda_callable got 3 of type int, expected a Python", bridge.numba_cuda_callable, 3, OUT),
    kernel_type("For one kernel .* use numba_cuda_kernel", lambda: bridge.numba_cuda_callable(cuda_copy(), OUT)),
    *wrapping("launch_copy", lambda outs=OUT, **options: bridge.numba_cuda_callable(launch_copy, outs, **options)),
]  # fmt: skip
CUDA_RAW = [
    kernel_type("the source 3 and the name 'copy', expected two strings", wrap_raw, source=3),
    signature("scalar 0 is 3 of type int, expected a NumPy scalar", wrap_raw, scalars=(3,)),
    signature(r"options is \['a'\], expected a mapping from fields of", wrap_raw, options=["a"]),
    *wrapping("copy", wrap_raw),
]


def wrap(name, **options):
    """Wraps one of the shared kernels."""
    return bridge.jax_kernel(getattr(warp_kernels, name), **options)


def run(name, *args, **options):
    """Calls one of the shared kernels."""
    return wrap(name, **options)(*args)


WARP = [
    kernel_type(r"jax_kernel got .* expected a function decorated with warp\.kernel", bridge.jax_kernel, print),
    signature(r"reverse\(x, out\): num_outputs is 0 .*, expected an integer between", wrap, "reverse", num_outputs=0),
    signature(r"num_outputs is 1 with 2 in/out arguments, expected an integer between 2 and 4\. It counts in/out",
        wrap, "exchange", in_out_argnames=["old", "total"]),
    signature(r"scale\(x, factor, out\): the output 'factor' is a value of type", wrap, "scale", num_outputs=2),
    signature(r"\['y'\]: \['y'\] did not match any function argument names", wrap, "reverse", in_out_argnames=["y"]),
    launch("launch_dims is .*, expected an int or a sequence of one to", wrap, "reverse", launch_dims=()),
    launch("reverse: block_dim is 1025; block_dim must be positive, at", wrap, "reverse", block_dim=1025),
    bad(bridge.DifferentiationError, "reverse: enable_backward is True, but", wrap, "reverse", enable_backward=True),
    signature(r"reverse got 0 arguments, expected 1: x\. Outputs are not passed", run, "reverse"),
    signature(r"int32\[4\] was passed for 'x' \(float32, 1 dim", run, "scale", X.astype(int), 1.0),
    signature(r"float32\[4\] was passed for 'radius' \(float64, .*with x64", run, "polar", X, X, num_outputs=2),
    signature("scale: 'factor' is 1j.*, expected a value that float32 can hold", run, "scale", X, 1j),
    parameter(r"scale: 'factor' is a traced value", lambda: jax.jit(wrap("scale"))(X, 2.0)),
    launch("takes no array whose shape could be launched over. Pass launch_dims", run, "count1"),
    signature(r"'low' \(float32, 1 dimension\) got the shape \(1, 4\) from", run, "extremes", X[None], num_outputs=2),
]  # fmt: skip
LACKING = "Warp .* has no type for {}, expected one of bool, int8, .*float64. Convert"
WARP_TYPES = [
    signature(LACKING.format("complex64"), bridge.jaxtype_to_warptype, "complex64"),
    signature(r"got 3\.0 of type float, expected a jax\.ShapeDtypeStruct", bridge.jaxinfo_to_warpinfo, 3.0),
]


def double(outs, **_):
    return lambda x: 2 * x


def op(outs=None):
    """An operator with a kernel ``a`` for the CPU."""
    made = bridge.XLACustomKernel("scale", outs)
    made.def_kernel("a", "cpu", double)
    return made


def on(method, *args, **options):
    """Calls a method of an operator."""
    return getattr(op(), method)(*args, **options)


def define(backend="b", platform="cpu", generator=double, **options):
    op().def_kernel(backend, platform, generator, **options)


def call(*args, **options):
    return op()(*args, **{"outs": OUT, **options})


def tune(*args, **options):
    return op().tune(*args, outs=OUT, **options)


def clip(*args, generator=lambda outs, limit: lambda x: jnp.clip(x, max=limit), outs=lambda x, limit: x, **parameters):
    """Calls an operator that takes one array, and one parameter by name."""
    made = bridge.XLACustomKernel("clip", outs)
    made.def_kernel("a", "cpu", generator)
    return made(*args, **parameters)


GENERATOR = "the kernel generator for {} on {} is 3, expected a function that takes keyword parameters"
OPERATOR = {
    "": [
        signature("XLACustomKernel got the name '', expected a non-empty", bridge.XLACustomKernel, ""),
        signature("scale: outs is 3, expected a function of the arrays", op, 3),
    ],
    "def_kernel": [
        backend_error(r"scale: platform is 'quantum', expected one of cpu, cuda", define, platform="quantum"),
        signature(r"scale: the backend is 'a,b', expected a name other than 'default'", define, backend="a,b"),
        signature(GENERATOR.format("b", "cpu"), define, generator=3),
        signature("the configurations of b are .*, expected a mapping from at", define, configurations={}),
    ],
    "def_triton_kernel": [signature(GENERATOR.format("triton", "cuda"), on, "def_triton_kernel", 3)],
    "set_default": [
        backend_error(r"'warp' cannot be the default.* not registered for it \(registered: cpu: a\)",
            on, "set_default", "cpu", "warp"),
    ],
    "def_vjp": [signature("the forward rule is 3, expected a function", on, "def_vjp", 3, double)],
    "def_transpose": [
        signature("scale: operand is -1, expected the index of an argument", on, "def_transpose", -1, double),
    ],
    "def_partitioning": [
        signature("scale: the dimensions are 3, expected names", on, "def_partitioning", 3, "b"),
        signature("the dimension 'i' cannot be split", on, "def_partitioning", "b i, i -> b", "i"),
    ],
    "__call__": [
        signature("scale: argument 0 is a list, .*Pass", call, [1.0]),
        parameter(r"operator 'clip': its function outs takes \(x, limit\): missing .* 'limit'", clip, X),
        parameter(r"the generator of backend 'a' takes \(outs, limit\): got an unexpected .* 'low'",
            clip, X, outs=lambda x, **_: x, limit=1, low=0),
        signature("generator returned None, expected a function", clip, X, generator=lambda outs, limit: None, limit=1),
        signature("Wrap a kernel, as in numba_kernel", clip, X, generator=lambda outs, limit: kernels.double, limit=1),
        signature("Wrap a kernel, as in .* or jax_kernel", clip, X, generator=lambda **_: warp_kernels.scale, limit=1),
        signature(r"the a kernel returned float32\[4\], but outs declares float32\[2\]",
            call, X, outs=Spec((2,), X.dtype)),
        parameter(r"parameter 'n' is a traced value.*static_argnames='n'",
            lambda: jax.jit(lambda n: call(X, n=n))(2)),
        parameter("parameter 'n' is .* not hashable.*pass arrays as arguments", call, X, n=X),
    ],
    "tune": [
        signature(r"argument 0 of tune is ShapeDtypeStruct\(.*, expected an array: tuning runs", tune, OUT),
        signature(r"argument 0 of tune is a traced value .* outside of jax\.jit", lambda: jax.jit(tune)(X)),
        backend_error(r"asked for 'warp', expected .* \(registered: cpu: a\)", tune, X, backends=["warp"]),
    ],
}  # fmt: skip


def enter(context, *args, **options):
    context(*args, **options).__enter__()


CONTEXTS = [
    signature(r"use_backend got \(3,\), expected the names of one", enter, bridge.use_backend, 3),
    signature("debug_mode got reference=3, expected True,", enter, bridge.debug_mode, reference=3),
    signature("debug_mode: rtol is '1', expected a number", enter, bridge.debug_mode, rtol="1"),
]


def twice(x: warp_kernels.VECTOR, out: warp_kernels.VECTOR):
    warp_kernels.wp.copy(out, x)


def wrap_triton(outs=OUT, **options):
    return bridge.triton_kernel(block_copy, outs, **{"grid": 4, "n": 4, "BLOCK": 16} | options)


def wrap_autotuned(**hook):
    triton = pytest.importorskip("triton")
    configs = [triton.Config({"BLOCK": 16}, **hook)]
    return bridge.triton_kernel(triton.autotune(configs, [])(block_copy), OUT, grid=1, n=4)


TRITON = [
    kernel_type("got 3 of type int, expected a function .* triton.jit", bridge.triton_kernel, 3, OUT, grid=1),
    signature(r"has a hook: Python .* pass the kernel inside it \(kernel.fn\)", wrap_autotuned, pre_hook=print),
    signature(r"outputs is .*, expected different names of its pointers: \['x', 'out'\]", wrap_triton, outputs=["n"]),
    signature(r"block_copy\(x, out, n, BLOCK\) got no value for", bridge.triton_kernel, block_copy, OUT, grid=1),
    signature("block_copy.* has no parameter 'size'", wrap_triton, size=3),
    signature("block_copy: n is 'four' of type str, expected a number or a NumPy scalar", wrap_triton, n="four"),
    signature("Triton has no option 'registers'. Known are num_warps", wrap_triton, options={"registers": 3}),
    launch("num_warps is 3, expected a power of two", wrap_triton, num_warps=3),
    *wrapping("block_copy", wrap_triton),
]  # fmt: skip


def wrap_cutile(outs=OUT, **options):
    return bridge.cutile_kernel(tile_copy, outs, **{"grid": 4, "shift": 0, "SIZE": 16} | options)


CUTILE = [
    kernel_type("got 3 of type int, expected a function .* cuda.tile.kernel", bridge.cutile_kernel, 3, OUT, grid=1),
    signature("tile_copy: SIZE is 'four' of type str, .*: cuTile has no other constants", wrap_cutile, SIZE="four"),
    *wrapping("tile_copy", wrap_cutile),
]  # fmt: skip


def unannotated(x, out):
    pass


def record(function=twice, **options):
    return bridge.warp_callable(function, **options)


WARP_CALLABLE = [
    kernel_type("warp_callable got 3 of type int, expected a Python function that launches", bridge.warp_callable, 3),
    kernel_type(r"unannotated\(x, out\): 'x' has no annotation, expected a type of Warp", record, unannotated),
    signature(r"output_dims has shapes for \['y'\], expected one for each output:", record, output_dims={"y": 3}),
    signature("twice got launch_dims by name", lambda: record()(X, launch_dims=3)),
    signature(r"'out' .* got the shape \(2, 2\) from output_dims", lambda: record(output_dims=(2, 2))(X)),
]  # fmt: skip


def wrap_tvm(outs=OUT, arguments=None, **options):
    return bridge.tvm_ffi_kernel(pytest.importorskip("tvm_ffi").convert(move), outs, arguments, **options)


def call_tvm(arguments, **options):
    return wrap_tvm(arguments=arguments, **options)(X)


TVM_FFI = [
    kernel_type(r"got 3 of type int, expected a tvm_ffi.Function that runs here, or", bridge.tvm_ffi_kernel, 3, OUT),
    signature("platform='cpu' and capturable=True, .* only functions on 'cuda'", wrap_tvm, capturable=True),
    signature("item 0 is .* of type ArrayImpl, expected an input or output", call_tvm, lambda x, out: (X, out)),
    *wrapping("tvm_ffi_function", wrap_tvm),
]  # fmt: skip

ERRORS = {
    "numba_kernel": NUMBA,
    "native_kernel": NATIVE,
    "numba_cuda_kernel": NUMBA_CUDA,
    "numba_cuda_callable": NUMBA_CUDA_CALLABLE,
    "cuda_raw_kernel": CUDA_RAW,
    "triton_kernel": TRITON,
    "cutile_kernel": CUTILE,
    "tvm_ffi_kernel": TVM_FFI,
    "jax_kernel": WARP,
    "warp_callable": WARP_CALLABLE,
    "jaxtype_to_warptype": WARP_TYPES,
    "debug_mode": CONTEXTS,
    **{f"XLACustomKernel.{method}".rstrip("."): rows for method, rows in OPERATOR.items()},
}
"""By public function."""

REQUIRED = {
    "cuda_raw_kernel": "cuda.core",
    "triton_kernel": "triton",
    "cutile_kernel": "cuda.tile",
    "tvm_ffi_kernel": "tvm_ffi",
}
"""Packages without which a function can only say that they are missing."""


@pytest.mark.parametrize(
    ("function", "row"),
    [pytest.param(name, row, id=f"{name}-{row.message}") for name, rows in ERRORS.items() for row in rows],
)
def test_bad_input_is_answered_with_the_error_that_says_so(function, row, request):
    if "numba_cuda" in function:
        request.getfixturevalue("no_gpu")
    elif function in REQUIRED:
        pytest.importorskip(REQUIRED[function], reason=f"{REQUIRED[function]} is not installed")
    assert issubclass(row.error, bridge.BridgeError)
    with pytest.raises(row.error, match=row.message):
        row.call(*row.args, **row.options)
