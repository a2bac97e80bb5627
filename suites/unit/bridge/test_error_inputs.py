"""Every public function of the bridge: which error a bad input gives, and what its message says.

What was received, what was expected, and what to do, in the words of :data:`ERRORS`. Kernels that are wrong are in the
tests of their language.
"""

import inspect
from typing import Any, NamedTuple

import jax
import jax.export
import jax.numpy as jnp
import numba
import numpy as np
import pytest

import bridge
from bridge import (
    BackendError,
    BridgeError,
    DifferentiationError,
    KernelCompileError,
    KernelTypeError,
    LaunchError,
    ParameterError,
    SignatureError,
    XLACustomKernel,
    cuda_raw_kernel,
    debug_mode,
    export_self_contained,
    jax_kernel,
    jaxinfo_to_warpinfo,
    jaxtype_to_warptype,
    numba_cuda_callable,
    numba_cuda_kernel,
    numba_kernel,
    use_backend,
)
from suites.unit.bridge import kernels, warp_kernels

Spec = jax.ShapeDtypeStruct
X = jnp.arange(1.0, 5.0)
OUT = Spec((4,), np.float32)
KEY = jax.random.key(0)
MATRICES = jnp.zeros((2, 3, 2, 2))


class Row(NamedTuple):
    """A call, the error that it gives, and a pattern for the message."""

    error: type[Exception]
    message: str
    call: Any
    args: tuple[Any, ...]
    options: dict[str, Any]


def bad(error, message, call, *args, **options):
    return Row(error, message, call, args, options)


class Array:
    """Has a shape and a dtype, and may be no array for all that."""

    def __init__(self, shape, dtype=np.float32):
        self.shape, self.dtype = shape, dtype


def outs(name, call):
    """Rows for what a wrapper takes as ``outs``, where ``call`` wraps the kernel of this name."""
    return {
        "outs None": bad(SignatureError, rf"{name}: outs contains None of type NoneType, expected jax\.Shape",
            call, None),
        "outs empty": bad(SignatureError, rf"{name}: outs is \[\], which declares no output", call, []),
        "outs a shape": bad(SignatureError, f"{name}: outs contains 4 of type int", call, (4,)),
        "outs a name": bad(SignatureError, "outs contains 'float32' of type str", call, [OUT, "float32"]),
        "outs of a float extent": bad(SignatureError, r"of shape \(4\.0,\) .* expected integers", call, Array((4.0,))),
        "outs of a negative extent": bad(SignatureError, r"of shape \(-4,\) .* at least 0", call, Spec((-4,), np.int8)),
        "outs without extents": bad(SignatureError, "of shape 4 and dtype", call, Array(4)),
        "outs of no dtype": bad(SignatureError, "and dtype nonsense, expected .* dtype such as",
            call, Array((4,), "nonsense")),
        "outs of keys": bad(SignatureError, "and dtype key<fry>, expected", call, Spec((4,), KEY.dtype)),
    }  # fmt: skip


def no_arrays(call, message):
    """Rows for arguments that are no arrays; ``{}`` in the message stands for their type."""
    values = ([1.0], ["a"], (X,), {"x": X}, None, "text", b"text", object(), print, np.array([None]), np.array(["a"]))
    kinds = [f"{type(v).__name__} of {v.dtype}" if isinstance(v, np.ndarray) else type(v).__name__ for v in values]
    return {
        f"{kind} {index}": bad(SignatureError, message.format(kind), call, value)
        for index, (kind, value) in enumerate(zip(kinds, values, strict=True))
    }


def outs_functions(name, call):
    """Rows for functions of the inputs as ``outs``; ``call`` wraps a kernel and calls it on one array."""
    place = r"outs, a function of the inputs \(.*test_error_inputs\.py:\d+\)"
    return {
        "outs of two inputs": bad(SignatureError, rf"{name}: {place}, was called with 1 inputs: missing .* 'y'\.",
            call, lambda x, y: x),
        "outs of no inputs": bad(SignatureError, "was called with 1 inputs: too many positional", call, lambda: OUT),
        "outs that raises": bad(SignatureError,
            rf"{name}: {place}, raised KeyError: 'n'\. It was called with float32\[4\]; it gets the shapes",
            call, lambda x: {}["n"]),
        "outs that returns None": bad(SignatureError, f"{name}: outs contains None of type NoneType, expected jax",
            call, lambda x: None),
        "outs that returns a shape": bad(SignatureError, f"{name}: outs contains 4 of type int",
            call, lambda x: x.shape),
        "outs that returns nothing": bad(SignatureError, rf"{name}: outs is \[\], which declares no",
            call, lambda x: []),
    }  # fmt: skip


def wrapping(call):
    """Rows for the options that all wrappers of one kernel have."""
    return {
        "vmap_method": bad(SignatureError, "vmap_method is 'all', expected one of", call, vmap_method="all"),
        "aliases a list": bad(SignatureError, r"input_output_aliases is \[0\], expected a dict from input index",
            call, input_output_aliases=[0]),
        "aliases by name": bad(SignatureError, "expected a dict from input index to output index",
            call, input_output_aliases={"x": 0}),
        "aliases of a negative index": bad(SignatureError, "expected a dict from input index",
            call, input_output_aliases={-1: 0}),
        "aliases of one output": bad(SignatureError, "maps two inputs to one output",
            call, input_output_aliases={0: 0, 1: 0}),
    }  # fmt: skip


LAUNCHES = {
    "no launch": ({}, r"neither \(grid, block\) nor launch_dims given"),
    "both forms of launch": ({"grid": 1, "block": 1, "launch_dims": 1}, r"both \(grid, block\) and launch_dims given"),
    "grid without block": ({"grid": 1}, "grid is 1 and block is None, but one needs the other"),
    "block without grid": ({"block": 1, "launch_dims": 4}, "grid is None and block is 1"),
    "grid of a float": ({"grid": 1.5, "block": 1}, r"grid is 1\.5, expected integers; 1\.5 is of type float"),
    "grid of a bool": ({"grid": True, "block": 1}, "grid is True, expected integers; True is of type bool"),
    "grid of text": ({"grid": "1", "block": 1}, "grid is '1', expected integers; '1' is of type str"),
    "grid of four": ({"grid": (1, 2, 3, 4), "block": 1}, r"grid is \(1, 2, 3, 4\), expected one to three integers"),
    "grid of a matrix": ({"grid": np.ones((2, 2), int), "block": 1}, "expected integers; array"),
    "grid negative": ({"grid": -1, "block": 1}, "grid is -1, expected integers from 0 to"),
    "block zero": ({"grid": 1, "block": 0}, "block is 0, expected integers from 1 to"),
    "launch_dims high": ({"launch_dims": 2**40}, "launch_dims is 1099511627776, which is 4294967296 blocks"),
    "launch_dims none": ({"launch_dims": ()}, r"launch_dims is \(\), expected one to three integers"),
    "threads_per_block zero": ({"launch_dims": 4, "threads_per_block": 0}, "threads_per_block is 0, expected"),
    "threads_per_block of two": ({"launch_dims": 4, "threads_per_block": (8, 8)}, r"is \(8, 8\), expected one integer"),
    "shared_mem negative": ({"launch_dims": 4, "shared_mem": -1}, "shared_mem is -1, expected integers from 0"),
}


def launches(call):
    """Rows for the launch of a CUDA kernel."""
    return {case: bad(LaunchError, message, call, **options) for case, (options, message) in LAUNCHES.items()}


# CPU kernels.


def wrap_copy(outs=OUT, **options):
    return numba_kernel(kernels.copy, outs, **options)


NUMBA = {
    "a function": bad(KernelTypeError, r"numba_kernel got <built-in .* decorated with numba\.njit",
        numba_kernel, print, OUT),
    "a number": bad(KernelTypeError, "numba_kernel got 3 of type int", numba_kernel, 3, OUT),
    "a ufunc": bad(KernelTypeError, "of type DUFunc, expected", numba_kernel, numba.vectorize(lambda x: x), OUT),
    **outs("copy", wrap_copy),
    **wrapping(wrap_copy),
    "no argument": bad(SignatureError, r"copy\(x, out\) got 0 inputs and has 1 outputs .*, 1 arrays in all, expected 2",
        lambda: wrap_copy()()),
    "too many arguments": bad(SignatureError, r"copy\(x, out\) got 2 inputs .* 3 arrays in all, expected 2",
        lambda: wrap_copy()(X, X)),
    **no_arrays(lambda arg: wrap_copy()(arg), r"copy: argument 0 \('x'\) is a {}, expected an array\. Pass each"),
    "the second argument a list": bad(SignatureError, r"add: argument 1 \('y'\) is a list, .*jnp\.asarray makes one",
        lambda: numba_kernel(kernels.add, OUT)(X, [1.0])),
    "a traced call of text": bad(SignatureError, r"copy: argument 0 \('x'\) is a str, expected an array",
        lambda: jax.jit(lambda x: wrap_copy()("text"))(X)),
    "by name": bad(SignatureError, r"add got y by name, but kernels take .* by position\. Call add\(x, y\)\.",
        lambda: numba_kernel(kernels.add, OUT)(X, y=X)),
    "an option of the wrapper": bad(SignatureError, r"copy got vmap_method by name, .* Call copy\(x\)\.",
        lambda: wrap_copy()(X, vmap_method="sequential")),
    **outs_functions("copy", lambda outs: wrap_copy(outs)(X)),
    "half precision": bad(KernelCompileError, "no float16 arrays. Convert it to float32 before",
        lambda: wrap_copy()(X.astype("float16"))),
    "keys": bad(KernelCompileError, "no key<fry> arrays. Supported are bool, int8", lambda: wrap_copy()(KEY)),
    "64-bit outputs": bad(SignatureError, "output 0 is declared float64, .*jax_enable_x64",
        lambda: wrap_copy(Spec((4,), float))(X)),
    "aliases of two shapes": bad(SignatureError,
        r"input 0 \(float32\[2\]\) to output 0 \(float32\[4\]\); an alias needs one",
        lambda: wrap_copy(input_output_aliases={0: 0})(X[:2])),
    "aliases of two dtypes": bad(SignatureError, r"input 0 \(int32\[4\]\) to output 0",
        lambda: wrap_copy(input_output_aliases={0: 0})(X.astype(int))),
    "aliases of a missing output": bad(SignatureError,
        "maps input 0 to output 1, but the call has 1 inputs and 1 outputs",
        lambda: wrap_copy(input_output_aliases={0: 1})(X)),
    "aliases of a missing input": bad(SignatureError, "maps input 1 to output 0, but the call has",
        lambda: wrap_copy(input_output_aliases={1: 0})(X)),
}  # fmt: skip


# CUDA kernels, wrapped where there is no GPU.


def cuda_copy():
    @numba.cuda.jit
    def copy(x, out):
        out[0] = x[0]

    return copy


def launch_copy(x, out, stream):
    """A function that launches kernels."""


def wrap_cuda(outs=OUT, **options):
    return numba_cuda_kernel(cuda_copy(), outs, **options)


def wrap_cuda_callable(outs=OUT, **options):
    return numba_cuda_callable(launch_copy, outs, **options)


SOURCE = 'extern "C" __global__ void copy(const float* x, float* out, int n) { if (n) out[0] = x[0]; }'


def wrap_raw(outs=OUT, source=SOURCE, name="copy", **options):
    return cuda_raw_kernel(source, name, outs, **{"scalars": (np.int32(1),), **options})


def wrap_raw_launched(outs=OUT, **options):
    return wrap_raw(outs, launch_dims=4, **options)


def export_raw(shape):
    """Traces a call on an array of this shape for CUDA."""
    call = jax.jit(lambda x: wrap_raw_launched()(x))
    return call.trace(Spec(shape, np.float32)).lower(lowering_platforms=("cuda",))


(OPEN,) = jax.export.symbolic_shape("n")

NUMBA_CUDA = {
    "a number": bad(KernelTypeError, r"numba_cuda_kernel got 3 of type int, expected .* numba\.cuda\.jit",
        numba_cuda_kernel, 3, OUT, launch_dims=4),
    "a CPU kernel": bad(KernelTypeError, "of type CPUDispatcher, expected",
        numba_cuda_kernel, kernels.copy, OUT, launch_dims=4),
    **launches(wrap_cuda),
    **outs("copy", lambda outs: wrap_cuda(outs, launch_dims=4)),
    **wrapping(lambda **options: wrap_cuda(launch_dims=4, **options)),
    **no_arrays(lambda arg: wrap_cuda(launch_dims=4)(arg), r"copy: argument 0 \('x'\) is a {}, expected an array"),
    "by name": bad(SignatureError, r"copy got x by name, .* Call copy\(x\)\.", lambda: wrap_cuda(launch_dims=4)(x=X)),
    **outs_functions("copy", lambda outs: wrap_cuda(outs, launch_dims=4)(X)),
}  # fmt: skip
NUMBA_CUDA_CALLABLE = {
    "a number": bad(KernelTypeError, "numba_cuda_callable got 3 of type int, expected a Python function",
        numba_cuda_callable, 3, OUT),
    "a kernel": bad(KernelTypeError, "For one kernel decorated with .* use numba_cuda_kernel",
        lambda: numba_cuda_callable(cuda_copy(), OUT)),
    **outs("launch_copy", wrap_cuda_callable),
    **wrapping(wrap_cuda_callable),
    **no_arrays(lambda arg: wrap_cuda_callable()(arg), r"launch_copy: argument 0 \('x'\) is a {}, expected an array"),
    "by name": bad(SignatureError, r"launch_copy got x by name, .* Call launch_copy\(x\)\.",
        lambda: wrap_cuda_callable()(x=X)),
    **outs_functions("launch_copy", lambda outs: wrap_cuda_callable(outs)(X)),
}  # fmt: skip
CUDA_RAW = {
    "source a number": bad(KernelTypeError, "got the source 3 and the name 'copy', expected two strings",
        wrap_raw_launched, source=3),
    "name empty": bad(KernelTypeError, "and the name '', expected two strings", wrap_raw_launched, name=""),
    "scalar a Python number": bad(SignatureError, "scalar 0 is 3 of type int, expected a NumPy scalar",
        wrap_raw_launched, scalars=(3,)),
    "scalar complex": bad(SignatureError, "scalar 0 is .* expected a NumPy scalar",
        wrap_raw_launched, scalars=(np.complex64(1),)),
    "scalars a number": bad(SignatureError, "scalars is 3, expected a sequence of NumPy scalars",
        wrap_raw_launched, scalars=3),
    "options a list": bad(SignatureError, r"options is \['a'\], expected a mapping from fields of",
        wrap_raw_launched, options=["a"]),
    "options by number": bad(SignatureError, "options is {1: 2}, expected a mapping from fields",
        wrap_raw_launched, options={1: 2}),
    "options not hashable": bad(SignatureError, "expected values that are hashable",
        wrap_raw_launched, options={"a": {}}),
    "shapes left open": bad(SignatureError, r"float32\[n\] has a symbolic shape, .* Export one program for each",
        export_raw, (OPEN,)),
    **launches(wrap_raw),
    **outs("copy", wrap_raw_launched),
    **wrapping(wrap_raw_launched),
    **no_arrays(lambda arg: wrap_raw_launched()(arg), "copy: argument 0 is a {}, expected an array"),
    "by name": bad(SignatureError, r"copy got x by name, .* by position\. Call copy\(\.\.\.\)\.",
        lambda: wrap_raw_launched()(x=X)),
    **outs_functions("copy", lambda outs: wrap_raw_launched(outs)(X)),
}  # fmt: skip


# Warp kernels.


def wrap(name, **options):
    """Wraps one of the shared kernels."""
    return jax_kernel(getattr(warp_kernels, name), **options)


def run(name, *args, **options):
    """Calls one of the shared kernels."""
    return wrap(name, **options)(*args)


def export_warp(shape):
    call = jax.jit(wrap("reverse"))
    return jax.export.export(call, platforms=("cpu",), disabled_checks=bridge.export_checks())(Spec(shape, np.float32))


WARP = {
    "a function": bad(KernelTypeError, r"jax_kernel got .* expected a function decorated with warp\.kernel",
        jax_kernel, print),
    "a number": bad(KernelTypeError, "jax_kernel got 3 of type int", jax_kernel, 3),
    "num_outputs zero": bad(SignatureError, r"reverse\(x, out\): num_outputs is 0, expected an integer of at least 1",
        wrap, "reverse", num_outputs=0),
    "num_outputs text": bad(SignatureError, "num_outputs is '2', expected an integer",
        wrap, "reverse", num_outputs="2"),
    "num_outputs bool": bad(SignatureError, "num_outputs is True, expected an integer",
        wrap, "reverse", num_outputs=True),
    "num_outputs high": bad(SignatureError, "num_outputs is 3 with 0 in/out arguments, expected between 1 and 2",
        wrap, "reverse", num_outputs=3),
    "num_outputs without in/out": bad(SignatureError,
        r"num_outputs is 1 with 2 in/out arguments, expected between 2 and 4\. It counts in/out",
        wrap, "exchange", in_out_argnames=["old", "total"]),
    "an output that is a value": bad(SignatureError,
        r"scale\(x, factor, out\): the output 'factor' is a value of type float32, expected an array",
        wrap, "scale", num_outputs=2),
    "an output that is a value of any type": bad(SignatureError,
        "the output 'factor' is a value of type Any, expected an array", wrap, "scale_any", num_outputs=2),
    "an in/out argument that is a value": bad(SignatureError, "the in/out 'factor' is a value of type float32",
        wrap, "scale", num_outputs=2, in_out_argnames=["factor"]),
    "in/out unknown": bad(SignatureError, r"in_out_argnames is \['y'\], expected different names of its parameters",
        wrap, "reverse", in_out_argnames=["y"]),
    "in/out twice": bad(SignatureError, "expected different names",
        wrap, "exchange", num_outputs=3, in_out_argnames=["old", "old"]),
    "in/out text": bad(SignatureError, "in_out_argnames is 'x', expected a list",
        wrap, "increment", in_out_argnames="x"),
    "in/out a number": bad(SignatureError, "in_out_argnames is 5, expected a list",
        wrap, "increment", in_out_argnames=5),
    "in/out after outputs": bad(SignatureError,
        "the in/out argument 'out' lies among the last 2 parameters, which are outputs",
        wrap, "exchange", num_outputs=3, in_out_argnames=["out"]),
    "launch_dims negative": bad(LaunchError, r"launch_dims is \(3, -1\), expected",
        wrap, "reverse", launch_dims=(3, -1)),
    "launch_dims float": bad(LaunchError, r"launch_dims is 3\.0, expected an int or a sequence of one to 4 ints",
        wrap, "reverse", launch_dims=3.0),
    "launch_dims bool": bad(LaunchError, "launch_dims is True", wrap, "reverse", launch_dims=True),
    "launch_dims text": bad(LaunchError, "launch_dims is '3'", wrap, "reverse", launch_dims="3"),
    "launch_dims none": bad(LaunchError, r"launch_dims is \(\)", wrap, "reverse", launch_dims=()),
    "launch_dims five": bad(LaunchError, "expected an int or a sequence of one to 4",
        wrap, "reverse", launch_dims=(1,) * 5),
    "launch_dims high": bad(LaunchError, "launch_dims is 2147483648, .* between 0 and 2147483647",
        wrap, "count1", launch_dims=2**31),
    "output_dims float": bad(LaunchError, r"output_dims is \[2\.5\], expected", wrap, "reverse", output_dims=[2.5]),
    "output_dims by name negative": bad(LaunchError, r"output_dims\['out'\] is -2, expected an int",
        wrap, "reverse", output_dims={"out": -2}),
    "output_dims of another name": bad(SignatureError,
        r"output_dims has shapes for \['low', 'most'\], expected one for each output: \['low', 'high'\]",
        wrap, "extremes", num_outputs=2, output_dims={"low": 2, "most": 2}),
    "block_dim zero": bad(LaunchError, "reverse: block_dim is 0, expected an int from 1 to 1024",
        wrap, "reverse", block_dim=0),
    "block_dim high": bad(LaunchError, "block_dim is 1025, expected an int from 1 to 1024",
        wrap, "reverse", block_dim=1025),
    "block_dim bool": bad(LaunchError, "block_dim is True, expected an int", wrap, "reverse", block_dim=True),
    "block_dim float": bad(LaunchError, r"block_dim is 8\.0, expected an int", wrap, "reverse", block_dim=8.0),
    "vmap_method": bad(SignatureError, "reverse: vmap_method is 'all', expected one of",
        wrap, "reverse", vmap_method="all"),
    "module_preload_mode": bad(SignatureError, "module_preload_mode is 7, expected a warp.JaxModulePreloadMode",
        wrap, "reverse", module_preload_mode=7),
    "module_preload_mode text": bad(SignatureError, "module_preload_mode is 'NONE', expected",
        wrap, "reverse", module_preload_mode="NONE"),
    "enable_backward without an adjoint": bad(DifferentiationError,
        "reverse: enable_backward is True, but Warp generates no adjoint", wrap, "reverse", enable_backward=True),
    "enable_backward of side effects": bad(DifferentiationError,
        "twice: JAX cannot differentiate a call that has side effects",
        wrap, "twice", enable_backward=True, has_side_effect=True),
    "no argument": bad(SignatureError, r"reverse got 0 arguments, expected 1: x\. Outputs are not passed",
        run, "reverse"),
    "too many arguments": bad(SignatureError, "scale got 3 arguments, expected 2: x, factor", run, "scale", X, 1.0, X),
    **no_arrays(lambda arg: run("reverse", arg), r"reverse: argument 0 is a {}, but 'x' \(any dtype.* takes an array"),
    "no array besides a value": bad(SignatureError,
        r"scale: argument 0 is a NoneType, but 'x' \(float32, 1 dimension\) takes an array", run, "scale", None, 1.0),
    "by name": bad(SignatureError,
        r"reverse got x by name, .* Call reverse\(x\); by name it takes launch_dims, output_dims, vmap_method",
        lambda: wrap("reverse")(x=X)),
    "a value by name": bad(SignatureError, r"scale got factor by name, .*Call scale\(x, factor\);",
        lambda: wrap("scale")(X, factor=1.0)),
    "rank too low": bad(SignatureError, r"float32\[\] was passed for 'x' .*reshape it first", run, "scale", 1.0, 1.0),
    "rank too high": bad(SignatureError, r"float32\[1, 4\] was passed for 'x'", run, "scale", X[None], 1.0),
    "dtype": bad(SignatureError, r"int32\[4\] was passed for 'x' \(float32, 1 dim", run, "scale", X.astype(int), 1.0),
    "64-bit dtype": bad(SignatureError,
        r"float32\[4\] was passed for 'radius' \(float64, .*with x64 disabled JAX has no 64-bit types",
        run, "polar", X, X, num_outputs=2),
    "elements": bad(SignatureError,
        r"float32\[3, 2, 2\] was passed for 'm' \(float32, 1 dimension and \(2, 3\) of each element\)",
        run, "entries", MATRICES[0], X),
    "generic rank too low": bad(SignatureError, r"float32\[\] was passed for 'x'", run, "reverse", jnp.float32(1)),
    "generic rank too high": bad(SignatureError, "of a rank one or two higher for vectors", run, "reverse", MATRICES),
    "generic dtype": bad(SignatureError, r"complex64\[4\] was passed for 'x' \(any dtype", run, "reverse", X + 1j),
    "generic small dtype": bad(SignatureError, r"float8_e4m3fn\[4\] was passed",
        run, "reverse", X.astype("float8_e4m3fn")),
    "generic keys": bad(SignatureError, r"key<fry>\[4\] was passed for 'x'", run, "reverse", jax.random.split(KEY, 4)),
    "generic empty elements": bad(SignatureError, r"float32\[4, 0\] was passed for 'x'",
        run, "reverse", jnp.zeros((4, 0))),
    "shapes left open": bad(SignatureError, r"float32\[n\] has a symbolic shape, .* Export one program for each",
        export_warp, (OPEN,)),
    "an array beyond 32-bit indices": bad(SignatureError,
        r"'x' .* got the shape \[2147483648\], expected .* at most 2147483647",
        lambda: jax.eval_shape(wrap("reverse"), Spec((2**31,), np.int8))),
    "value of text": bad(SignatureError, "'factor' is 'a'.*, expected a value that float32 can hold",
        run, "scale", X, "a"),
    "value None": bad(SignatureError, "'factor' is None", run, "scale", X, None),
    "value complex": bad(SignatureError, "scale: 'factor' is 1j", run, "scale", X, 1j),
    "value of many numbers": bad(SignatureError, r"'factor' is [\[(]1\.0, 2\.0[\])]", run, "scale", X, [1.0, 2.0]),
    "value ragged": bad(SignatureError, r"'factor' is \[\[1\.0\], \[2\.0, 3\.0\]\]",
        run, "scale", X, [[1.0], [2.0, 3.0]]),
    "value too large": bad(SignatureError, r"'factor' is 1e\+300.*that float32 can hold", run, "scale", X, 1e300),
    "value of a generic type": bad(SignatureError, "'factor' is 2.* that bool can hold",
        run, "scale_any", X.astype(bool), 2),
    "value traced": bad(ParameterError, r"scale: 'factor' is a traced value \(.*float32\[\]\).*static.*one element",
        lambda: jax.jit(wrap("scale"))(X, 2.0)),
    "no launch": bad(LaunchError, "it takes no array whose shape could be launched over. Pass launch_dims",
        run, "count1"),
    "launch of nothing": bad(LaunchError,
        r"the launch dimensions \(0,\) launch nothing, so the outputs would not be written",
        run, "count1", launch_dims=0, output_dims=2),
    "inferred shape of an output": bad(SignatureError,
        r"'low' \(float32, 1 dimension\) got the shape \(1, 4\) from the launch dimensions.*Pass output_dims=\{'low'",
        run, "extremes", X[None], num_outputs=2),
    "shape of an output": bad(SignatureError, r"'out' \(float32, 1 dimension\) got the shape \(2, 2\) from output_dims",
        run, "reverse", X, output_dims=(2, 2)),
    "elements of an output": bad(SignatureError,
        r"'out' .* got the shape \(1, 4\) from output_dims.* after them: \(3,\)",
        lambda: jax_kernel(warp_kernels.REVERSE["vec3"], output_dims=(1, 4))(X[None, :3])),
    "launch_dims of a call": bad(LaunchError, "count1: launch_dims is -1", lambda: wrap("count1")(launch_dims=-1)),
    "output_dims of a call": bad(SignatureError, r"count1: output_dims has shapes for \['x'\]",
        lambda: wrap("count1")(output_dims={"x": 1})),
    "vmap_method of a call": bad(SignatureError, "count1: vmap_method is 'all'",
        lambda: wrap("count1", launch_dims=1)(vmap_method="all")),
}  # fmt: skip
LACKING = "Warp .* has no type for {}, expected one of bool, int8, .*float64. Convert"
WARP_TYPES = {
    **{dtype: bad(SignatureError, LACKING.format(dtype),
        jaxtype_to_warptype, dtype) for dtype in ("complex64", "float8_e4m3fn", "int4")},
    "text": bad(SignatureError, r"'text' is no dtype\. Pass one such as jnp\.float32", jaxtype_to_warptype, "text"),
    "a number": bad(SignatureError, "3 is no dtype", jaxtype_to_warptype, 3),
    "None": bad(SignatureError, "None is no dtype", jaxtype_to_warptype, None),
    "records": bad(SignatureError, "has no type for", jaxtype_to_warptype, np.dtype([("a", int)])),
    "keys": bad(SignatureError, "key<fry> is no dtype", jaxtype_to_warptype, KEY.dtype),
}  # fmt: skip
WARP_INFO = {
    "a number": bad(SignatureError, r"got 3\.0 of type float, expected a jax\.ShapeDtypeStruct",
        jaxinfo_to_warpinfo, 3.0),
    "no extents": bad(SignatureError, "of type Array, expected", jaxinfo_to_warpinfo, Array(3)),
    "rank 0": bad(SignatureError, "has 0 dimensions, but Warp's arrays have 1 to 4. Reshape it",
        jaxinfo_to_warpinfo, X[0]),
    "rank 5": bad(SignatureError, "has 5 dimensions, but Warp's arrays have 1 to 4",
        jaxinfo_to_warpinfo, Spec((1,) * 5, np.int8)),
    "complex": bad(SignatureError, LACKING.format("complex64"), jaxinfo_to_warpinfo, X + 1j),
}  # fmt: skip


# Operators.


def double(outs, **_):
    return lambda x: 2 * x


def op(outs=None):
    """An operator with a kernel ``a`` for the CPU."""
    made = XLACustomKernel("scale", outs)
    made.def_kernel("a", "cpu", double)
    return made


def define(backend="b", platform="cpu", generator=double, **options):
    op().def_kernel(backend, platform, generator, **options)


def calls(generator, outs=None):
    made = XLACustomKernel("clip", outs)
    made.def_kernel("a", "cpu", generator)
    return made


def clip(*args, **parameters):
    """Calls an operator that takes one array, and one parameter by name."""
    made = calls(lambda outs, limit: lambda x: jnp.clip(x, max=limit), lambda x, limit: Spec(x.shape, x.dtype))
    return made(*args, **parameters)


PARAMETERS: dict[str, Any] = {
    "unknown": ("its function outs got an unknown parameter 'limt'; it takes limit", (X,), {"limt": 0.5}),
    "unknown with outs": ("backend 'a' got an unknown parameter 'limt'; it takes limit", (X,),
        {"outs": OUT, "limt": 1}),
    "unknown besides a known one": ("backend 'a' got an unknown parameter 'low'; it takes limit", (X,),
        {"outs": OUT, "limit": 1, "low": 0}),
    "missing": ("its function outs lacks the parameter 'limit'; it takes limit. Pass it by name", (X,), {}),
    "missing with outs": ("backend 'a' lacks the parameter 'limit'; it takes limit. Pass it", (X,), {"outs": OUT}),
}  # fmt: skip
NAME = "expected a name other than 'default', without colon .* or comma"
GENERATOR = "the kernel generator for {} on {} is 3, expected a function that takes keyword parameters"
OPERATOR = {
    "": {
        "name empty": bad(SignatureError, "XLACustomKernel got the name '', expected a non-empty string",
            XLACustomKernel, ""),
        "name a number": bad(SignatureError, "XLACustomKernel got the name 3, expected", XLACustomKernel, 3),
        "outs a number": bad(SignatureError, "scale: outs is 3, expected a function of the arrays", op, 3),
    },
    "def_kernel": {
        "platform unknown": bad(BackendError, "scale: platform is 'quantum', expected one of cpu, cuda",
            define, platform="quantum"),
        "platform a list": bad(BackendError, r"scale: platform is \['cpu'\], expected one of",
            define, platform=["cpu"]),
        "backend empty": bad(SignatureError, f"scale: the backend is '', {NAME}", define, backend=""),
        "backend a number": bad(SignatureError, f"the backend is 3, {NAME}", define, backend=3),
        "backend of two": bad(SignatureError, f"the backend is 'a,b', {NAME}", define, backend="a,b"),
        "backend of a configuration": bad(SignatureError, f"the backend is 'a:b', {NAME}", define, backend="a:b"),
        "backend default": bad(SignatureError, f"the backend is 'default', {NAME}", define, backend="default"),
        "generator a number": bad(SignatureError, GENERATOR.format("b", "cpu"), define, generator=3),
        "configurations a list": bad(SignatureError, r"the configurations of b are \['c'\], expected a mapping",
            define, configurations=["c"]),
        "configurations none": bad(SignatureError, "b has no configurations, expected at least one",
            define, configurations={}),
        "configuration without name": bad(SignatureError, "b has the configuration '': {}, expected a name",
            define, configurations={"": {}}),
        "configuration a number": bad(SignatureError, "b has the configuration 'c': 3, expected",
            define, configurations={"c": 3}),
        "configuration by number": bad(SignatureError, "b:c is {3: 1}, expected names of keyword",
            define, configurations={"c": {3: 1}}),
        "configuration not hashable": bad(SignatureError, "b:c has values that are not hashable: {'n': ",
            define, configurations={"c": {"n": []}}),
    },
    "def_numba_kernel": {"a number": bad(SignatureError, GENERATOR.format("numba", "cpu"),
        lambda: op().def_numba_kernel(3))},
    "def_numba_cuda_kernel": {"a number": bad(SignatureError, GENERATOR.format("numba_cuda", "cuda"),
        lambda: op().def_numba_cuda_kernel(3))},
    "def_warp_kernel": {"a number": bad(SignatureError, GENERATOR.format("warp", "cpu"),
        lambda: op().def_warp_kernel(3))},
    "def_pallas_kernel": {"a number": bad(SignatureError, GENERATOR.format("pallas", "cpu"),
        lambda: op().def_pallas_kernel(3))},
    "def_triton_kernel": {"a number": bad(SignatureError, GENERATOR.format("triton", "cuda"),
        lambda: op().def_triton_kernel(3))},
    "def_cuda_raw_kernel": {"a number": bad(SignatureError, GENERATOR.format("cuda_raw", "cuda"),
        lambda: op().def_cuda_raw_kernel(3))},
    "def_jnp_kernel": {"a number": bad(SignatureError, GENERATOR.format("jnp", "cpu"), lambda: op().def_jnp_kernel(3))},
    "available_backends": {"platform unknown": bad(BackendError, "scale: platform is 'rocm', expected one of cpu",
        lambda: op().available_backends("rocm"))},
    "set_default": {
        "platform unknown": bad(BackendError, "scale: platform is 3, expected one of",
            lambda: op().set_default(3, "a")),
        "backend unknown": bad(BackendError,
            r"'warp' cannot be the default.* not registered for it \(registered: cpu: a\)",
            lambda: op().set_default("cpu", "warp")),
        "backend of another platform": bad(BackendError, "'a' cannot be the default of platform 'cuda'",
            lambda: op().set_default("cuda", "a")),
        "backend a number": bad(BackendError, "backend 3 cannot be the default", lambda: op().set_default("cpu", 3)),
    },
    "def_batching": {"a number": bad(SignatureError, "scale: the batching rule is 3, expected a function",
        lambda: op().def_batching(3))},
    "def_jvp": {"None": bad(SignatureError, "scale: the rule is None, expected a function",
        lambda: op().def_jvp(None))},
    "def_vjp": {
        "forward a number": bad(SignatureError, "the forward rule is 3, expected a function",
            lambda: op().def_vjp(3, double)),
        "backward a number": bad(SignatureError, "the backward rule is 3, expected a function",
            lambda: op().def_vjp(double, 3)),
    },
    "def_transpose": {
        "operand text": bad(SignatureError, "scale: operand is 'x', expected the index of an argument",
            lambda: op().def_transpose("x", double)),
        "operand negative": bad(SignatureError, "operand is -1, expected the index",
            lambda: op().def_transpose(-1, double)),
        "operand bool": bad(SignatureError, "operand is True, expected the index",
            lambda: op().def_transpose(True, double)),
        "rule a number": bad(SignatureError, "the transpose rule is 3, expected a function",
            lambda: op().def_transpose(0, 3)),
    },
    "def_partitioning": {
        "dimensions a number": bad(SignatureError, "scale: the dimensions are 3, expected a string",
            lambda: op().def_partitioning(3, "b")),
        "dimensions of arguments alone": bad(SignatureError,
            "the dimensions are 'b i, i', expected names of the dimensions",
            lambda: op().def_partitioning("b i, i", "b")),
        "split of a sum": bad(SignatureError, "the dimension 'i' cannot be split",
            lambda: op().def_partitioning("b i, i -> b", "i")),
        "split a number": bad(SignatureError, "split is 3, expected names of dimensions",
            lambda: op().def_partitioning("b -> b", 3)),
    },
    "__call__": {
        **{f"argument a {type(arg).__name__}": bad(SignatureError,
            rf"scale: argument 0 is a {type(arg).__name__}, expected an array\. Pass each",
            lambda arg=arg: op()(arg, outs=OUT)) for arg in ([1.0, 2.0], (X,), {"x": X}, None, "text", object())},
        "argument of objects": bad(SignatureError, "argument 0 is a ndarray of object, expected an array",
            lambda: op()(np.array([None]), outs=OUT)),
        "argument of the function outs": bad(SignatureError, r"scale: argument 1 \('y'\) is a list, expected an array",
            lambda: op(lambda x, y: OUT)(X, [1.0])),
        "outs missing": bad(SignatureError, "scale: outs is missing. Pass the shapes", lambda: op()(X)),
        **{f"parameter {case}": bad(ParameterError, rf"operator 'clip': {message}", clip, *args, **parameters)
            for case, (message, args, parameters) in PARAMETERS.items()},
        "an array too many for outs": bad(SignatureError,
            r"operator 'clip': its function outs takes 1 arguments \(x\), but the call passes 2",
            clip, X, X, limit=1.0),
        "a generator without outs": bad(SignatureError, "backend 'a' takes no keyword parameter 'outs'.*Add it: def",
            lambda: calls(lambda limit: abs)(X, outs=OUT, limit=1.0)),
        "outs of the operator": bad(SignatureError, "scale: outs contains 3 of type int",
            lambda: op(outs=lambda x: 3)(X)),
        **outs("scale", lambda outs: op(lambda x: outs)(X)),
        "outs of another shape": bad(SignatureError,
            r"the a kernel returned float32\[4\], but outs declares float32\[2\]",
            lambda: op()(X, outs=Spec((2,), X.dtype))),
        "64-bit outs": bad(SignatureError, "scale: output 0 is declared float64, .*jax_enable_x64",
            lambda: op()(X, outs=Spec((4,), float))),
        "backend unknown": bad(BackendError, r"backend 'triton' is not registered \(registered: cpu: a\)",
            lambda: op()(X, outs=OUT, backend="triton")),
        "backend a list": bad(BackendError, r"backend is \['a'\], expected the name of one",
            lambda: op()(X, outs=OUT, backend=["a"])),
        "no backend": bad(BackendError, "scale: no kernel is registered",
            lambda: XLACustomKernel("scale")(X, outs=OUT)),
        "parameter traced": bad(ParameterError, r"parameter 'n' is a traced value.*static_argnames='n'",
            lambda: jax.jit(lambda n: op()(X, outs=OUT, n=n))(2)),
        **{f"parameter a {kind}": bad(ParameterError, "parameter 'n' is .* not hashable.*pass arrays as arguments",
            lambda value=value: op()(X, outs=OUT, n=value))
            for kind, value in {"list": [1], "dict": {}, "NumPy array": np.ones(2), "JAX array": X}.items()},
    },
    "tune": {
        "argument None": bad(SignatureError, "scale: argument 0 is a NoneType, expected an array",
            lambda: op().tune(None, outs=OUT)),
        "argument a struct": bad(SignatureError,
            r"argument 0 of tune is ShapeDtypeStruct\(.*, expected an array: tuning runs",
            lambda: op().tune(OUT, outs=OUT)),
        "argument traced": bad(SignatureError, r"argument 0 of tune is a traced value .* outside of jax\.jit",
            lambda: jax.jit(lambda x: op().tune(x, outs=OUT))(X)),
        "backends unknown": bad(BackendError, r"asked for 'warp', expected .* \(registered: cpu: a\)",
            lambda: op().tune(X, outs=OUT, backends=["warp"])),
        "backends a number": bad(BackendError, "tune was asked for 3, expected",
            lambda: op().tune(X, outs=OUT, backends=3)),
        "backends none": bad(BackendError, "tune was asked for no backend",
            lambda: op().tune(X, outs=OUT, backends=[])),
        "no backend": bad(BackendError, "no kernel for platform 'cpu'",
            lambda: XLACustomKernel("scale").tune(X, outs=OUT)),
        "rtol text": bad(SignatureError, "scale: rtol is 'a', expected a number of at least 0",
            lambda: op().tune(X, outs=OUT, rtol="a")),
        "rtol negative": bad(SignatureError, "scale: rtol is -1, expected a number",
            lambda: op().tune(X, outs=OUT, rtol=-1)),
    },
    "explain": {
        "argument text": bad(SignatureError, "scale: argument 0 is a str, expected an array",
            lambda: op().explain("x", outs=OUT)),
        "backend unknown": bad(BackendError, "'none' is not registered",
            lambda: op().explain(X, outs=OUT, backend="none")),
        "parameter a list": bad(ParameterError, "parameter 'n' is .* not hashable",
            lambda: op().explain(X, outs=OUT, n=[])),
    },
}  # fmt: skip


# Contexts and exported programs.


def enter(context, *args, **options):
    with context(*args, **options):
        pass


CONTEXTS = {
    "use_backend": {
        "nothing": bad(SignatureError, r"use_backend got \(\), expected the names of one or more backends",
            enter, use_backend),
        "a number": bad(SignatureError, r"use_backend got \(3,\), expected", enter, use_backend, 3),
        "a list": bad(SignatureError, r"use_backend got \(\['a'\],\), expected", enter, use_backend, ["a"]),
    },
    "debug_mode": {
        "reference a number": bad(SignatureError,
            "debug_mode got reference=3 and nan=True, expected True, False or the name",
            enter, debug_mode, reference=3),
        "nan unknown": bad(SignatureError, "debug_mode got reference=True and nan='all', expected",
            enter, debug_mode, nan="all"),
        "outputs text": bad(SignatureError, "debug_mode got outputs='no' and inputs=True, expected True or False",
            enter, debug_mode, outputs="no"),
        "inputs a number": bad(SignatureError, "debug_mode got outputs=True and inputs=0, expected True or False",
            enter, debug_mode, inputs=0),
        "rtol text": bad(SignatureError, "debug_mode: rtol is '1', expected a number of at least 0",
            enter, debug_mode, rtol="1"),
        "rtol NaN": bad(SignatureError, "debug_mode: rtol is nan, expected", enter, debug_mode, rtol=float("nan")),
    },
}  # fmt: skip
EXPORT = {
    "a number": bad(SignatureError, "export_self_contained got 3, expected a function of arrays",
        export_self_contained, 3),
    "platforms text": bad(SignatureError, "export_self_contained got the platforms 'cuda', expected a list",
        export_self_contained, double, platforms="cuda"),
    "platforms a number": bad(SignatureError, "got the platforms 3, expected a list of names",
        export_self_contained, double, platforms=3),
}  # fmt: skip


ERRORS = {
    "numba_kernel": NUMBA,
    "numba_cuda_kernel": NUMBA_CUDA,
    "numba_cuda_callable": NUMBA_CUDA_CALLABLE,
    "cuda_raw_kernel": CUDA_RAW,
    "jax_kernel": WARP,
    "jaxtype_to_warptype": WARP_TYPES,
    "jaxinfo_to_warpinfo": WARP_INFO,
    **{f"XLACustomKernel.{method}".rstrip("."): rows for method, rows in OPERATOR.items()},
    **CONTEXTS,
    "export_self_contained": EXPORT,
}
"""By public function, and by what is wrong."""

FOREIGN = {
    "numba_kernel": ("Warp", "warp", "CUDA", "numba_cuda"),
    "numba_cuda_kernel": ("Warp", "warp."),
    "numba_cuda_callable": ("Warp", "warp."),
    "cuda_raw_kernel": ("Warp", "warp."),
    "jax_kernel": ("Numba", "numba", "njit"),
}
"""By function, words of other kernel languages, which its errors have no use for."""

TAKE_NOTHING = {"export_checks", "release", "XLACustomKernel.forget"}
"""Functions that no input of a caller can be bad for."""

REQUIRED = {"numba_cuda_kernel": "numba.cuda", "numba_cuda_callable": "numba.cuda", "cuda_raw_kernel": "cuda.core"}
"""Packages without which a function can only say that they are missing."""


@pytest.fixture
def gpu(monkeypatch):
    """Lets CUDA kernels be wrapped where there is no GPU to launch them on."""
    for module in (bridge.languages.numba_cuda.cuda_jit, bridge.languages.numba_cuda.callables):
        monkeypatch.setattr(inspect.getmodule(module), "require_cuda", lambda: None)


@pytest.mark.parametrize(
    ("function", "row"),
    [pytest.param(name, row, id=f"{name}-{case}") for name, rows in ERRORS.items() for case, row in rows.items()],
)
def test_bad_input_is_answered_with_the_error_that_says_so(function, row, gpu):
    if function in REQUIRED:
        pytest.importorskip(REQUIRED[function], reason=f"{REQUIRED[function]} is not installed")
    assert issubclass(row.error, BridgeError)
    with pytest.raises(row.error, match=row.message) as caught:
        row.call(*row.args, **row.options)
    assert not any(word in str(caught.value) for word in FOREIGN.get(function, ()))


def gradient(wrapped):
    return jax.grad(lambda x: jax.tree.leaves(wrapped(x))[0].sum())


@pytest.mark.parametrize(
    ("function", "differentiate"),
    [
        ("numba_kernel", lambda: gradient(wrap_copy())(X)),
        ("cuda_raw_kernel", lambda: jax.make_jaxpr(gradient(wrap_raw_launched()))(X)),
        ("jax_kernel", lambda: gradient(wrap("reverse"))(X)),
        ("XLACustomKernel.__call__", lambda: gradient(op(lambda x: x))(X)),
    ],
)
def test_a_missing_derivative_is_told_in_the_words_of_the_language(function, differentiate, gpu):
    if function in REQUIRED:
        pytest.importorskip(REQUIRED[function], reason=f"{REQUIRED[function]} is not installed")
    with pytest.raises(DifferentiationError, match=r"has no derivative.*(jax\.custom_vjp|def_vjp)") as caught:
        differentiate()
    assert not any(word in str(caught.value) for word in FOREIGN.get(function, ("Warp", "numba_")))


def public_functions():
    """Of the bridge, by name: functions, classes that are no errors, and the methods of these."""
    for name in bridge.__all__:
        found = getattr(bridge, name)
        if not (inspect.isclass(found) and issubclass(found, Exception)):
            yield name, found
        if found is XLACustomKernel:
            methods = inspect.getmembers(found, inspect.isfunction)
            yield from ((f"{name}.{m}", f) for m, f in methods if m == "__call__" or not m.startswith("_"))


def test_every_public_function_is_in_the_table_or_takes_nothing():
    functions = dict(public_functions())
    assert set(ERRORS) | TAKE_NOTHING == set(functions)
    assert not set(ERRORS) & TAKE_NOTHING
    for name in TAKE_NOTHING:
        assert set(inspect.signature(functions[name]).parameters) <= {"self"}


def test_an_error_is_also_of_the_built_in_type_that_one_would_expect():
    expected = {
        KernelTypeError: (AssertionError, TypeError),
        SignatureError: (TypeError, ValueError),
        ParameterError: (TypeError,),
        LaunchError: (ValueError,),
        KernelCompileError: (TypeError,),
        BackendError: (LookupError,),
        bridge.CudaUnavailableError: (ImportError,),
        bridge.WarpUnavailableError: (ImportError,),
        bridge.PlatformError: (NotImplementedError,),
        DifferentiationError: (NotImplementedError,),
    }
    for error, kinds in expected.items():
        assert all(issubclass(error, kind) for kind in kinds)
    errors = [getattr(bridge, name) for name in bridge.__all__ if name.endswith("Error")]
    assert all(issubclass(error, BridgeError) for error in errors)


def test_a_refused_call_does_not_spoil_an_equal_one():
    """An extent of 4.0 is equal to one of 4, and wrappers are found by what is equal."""
    with pytest.raises(SignatureError):
        wrap_copy(Array((4.0,)))
    np.testing.assert_array_equal(wrap_copy(Array((4,)))(X), X)


def test_a_refused_registration_changes_nothing():
    made = op()
    for row in OPERATOR["def_kernel"].values():
        with pytest.raises(row.error):
            made.def_kernel(**{"backend": "b", "platform": "cpu", "generator": double, **row.options})
    assert made.defaults == {"cpu": "a"}
    assert made.available_backends("cpu") == ("a",)
    np.testing.assert_array_equal(made(X, outs=OUT), 2 * X)
