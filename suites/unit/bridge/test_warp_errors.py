"""jax_kernel: kernels and values that it refuses, compilations that fail, and versions of Warp to come."""

import ctypes
import re
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bridge import AbiError, KernelCompileError, KernelTypeError, LaunchError, PlatformError, SignatureError, jax_kernel
from bridge.languages.warp.generated import generated, pack
from bridge.languages.warp.operations import WarpArgument, WarpLaunch
from suites.kernels.warp.blocks import wp
from suites.unit.bridge import warp_kernels as kernels

X = jnp.arange(1.0, 5.0)


@wp.struct
class Pair:
    first: float
    second: wp.array(dtype=float)


def of_struct(x: kernels.VECTOR, pair: Pair, out: kernels.VECTOR):
    out[wp.tid()] = pair.first


def of_indexed(x: wp.indexedarray(dtype=float), out: kernels.VECTOR):
    out[wp.tid()] = x[0]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (of_struct, "parameter 'pair' is of the type .*Pair, which no JAX value has"),
        (of_indexed, "parameter 'x' is of the type indexedarray"),
    ],
)
def test_types_that_jax_lacks_are_refused(function, message):
    kernel = kernels.forward_only(function)
    with pytest.raises(KernelTypeError, match=rf"{function.__name__}: {message}"):
        jax_kernel(kernel)


@pytest.mark.parametrize(
    ("name", "value", "dtype"),
    [("a", 1e39, "float32"), ("b", 1.5, "int32"), ("b", np.nan, "int32"), ("c", 2, "bool"), ("d", 128, "int8"),
     ("e", -1, "uint8"), ("f", 2**63, "int64"), ("g", 2**64, "uint64"), ("h", 65536.0, "float16")],
)  # fmt: skip
def test_a_value_must_be_one_that_its_type_holds(name, value, dtype):
    values = {**dict(zip("abcdefgh", [1.0, 1, True, 1, 1, 1, 1, 1.0], strict=True)), name: value}
    message = rf"values: {name!r} is .*expected a value that {dtype} can hold"
    with jax.enable_x64(True), pytest.raises(SignatureError, match=message):
        jax_kernel(kernels.values, launch_dims=1, output_dims=8)(*values.values())


def test_an_error_names_the_kernel_and_the_line():
    @wp.kernel(module="unique")
    def wrong(x: kernels.VECTOR, out: kernels.VECTOR):
        i = wp.tid()
        out[i] = x[i] + 1

    program = jax.jit(jax_kernel(wrong))
    with pytest.raises(
        KernelCompileError, match=r"(?s)compile .*wrong \(.*test_warp_errors\.py:\d+\).*must be the same"
    ):
        program.eval_shape(X)


def test_cuda_without_a_driver():
    if wp.is_cuda_available():
        pytest.skip("this machine has a CUDA driver")
    jax_kernel(kernels.reverse)(X)  # the code for the CPU, which has the same description, must not be taken
    program = jax.jit(jax_kernel(kernels.reverse)).trace(X)
    with pytest.raises(PlatformError, match=r"driver library could not be loaded|Warp finds no CUDA device"):
        program.lower(lowering_platforms=("cuda",))


@pytest.mark.parametrize("name", ["my kernel", "launch-dims"])
def test_a_kernel_may_have_a_name_that_is_no_identifier(name):
    def kernel(x: kernels.VECTOR, out: kernels.VECTOR):
        i = wp.tid()
        out[i] = 2.0 * x[i]

    kernel.__name__ = kernel.__qualname__ = name
    np.testing.assert_array_equal(jax_kernel(wp.kernel(kernel))(X)[0], 2 * X)


SPEC = WarpLaunch((3,), None, False, (WarpArgument("int32", (), (3,), 0),))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"params": [b"", 1, 2]}, "count1 has 1 parameters, but its launch 2 arguments"),
        ({"params": [b"", ctypes.c_int64(5)]}, "a recorded launch has other contents"),
        ({"params": [b"", kernels.wp.array(ptr=5, dtype=int, shape=(3,)).__ctype__()]}, "argument 0 .* address"),
    ],
)
def test_what_an_unknown_warp_records_is_refused(monkeypatch, changes, message):
    """Versions of Warp to come may record other things."""
    own = wp.launch

    def recording(*args, **options):
        recorded = own(*args, **options)
        names = ("params", "hooks", "module_exec", "block_dim")
        return SimpleNamespace(**{**{name: getattr(recorded, name) for name in names}, **changes})

    monkeypatch.setattr(wp, "launch", recording)
    with pytest.raises(AbiError, match=rf"not understand warp-lang {re.escape(wp.__version__)}: {message}"):
        pack(generated(kernels.count1, "cpu", None), SPEC, wp.get_device("cpu"))


@pytest.mark.parametrize(
    ("kernel", "shape", "fits"),
    [(kernels.extremes, (2, 2**29), False), (kernels.extremes, (2, 2**29 - 1), True),
     (kernels.extremes, (1, 2**30), True),
     (kernels.REVERSE["float32"], (2**31 - 1,), True), (kernels.REVERSE["float32"], (2**31,), False)],
)  # fmt: skip
def test_a_shape_fits_into_32_bits_or_is_refused(kernel, shape, fits):
    """Warp's arrays have 32 bits for each extent, and for the bytes of a step along each dimension."""
    outputs = 2 if kernel is kernels.extremes else 1
    call = jax_kernel(kernel, outputs, launch_dims=1, output_dims=1)
    x = jax.ShapeDtypeStruct(shape, np.float32)
    if fits:
        jax.eval_shape(call, x)
    else:
        with pytest.raises(SignatureError, match=r"'x' .* got the shape .* have 32 bits.*reshape\(-1\)"):
            jax.eval_shape(call, x)


@kernels.kernel
def outer(x: kernels.VECTOR, y: kernels.VECTOR, out: kernels.MATRIX):
    i, j = wp.tid()
    out[i, j] = x[i] * y[j]


@kernels.kernel
def each_layer(x: wp.array3d(dtype=float), out: wp.array3d(dtype=float)):
    first = wp.tid()
    i, j = wp.tid()
    for m in range(x.shape[0]):
        out[m, i, j] = 2.0 * x[m, i, j] + 0.0 * float(first)


@kernels.forward_only
def without_indices(x: kernels.MATRIX, out: kernels.VECTOR):
    out[0] = x[0, 0]


class TestRanks:
    """A launch has as many dimensions as the kernel unpacks of wp.tid()."""

    @pytest.mark.parametrize(
        ("kernel", "options", "shapes", "message"),
        [
            (each_layer, {}, [(2, 3, 4)], r"3 dimensions, \(2, 3, 4\), expected 2"),
            (outer, {"output_dims": (3, 4)}, [(3,), (4,)], r"1 dimensions, \(3,\), expected 2"),
            (kernels.count_tiles, {"launch_dims": (4, 2), "in_out_argnames": ["tiles"]}, [(4,)], "expected 1"),
        ],
    )
    def test_another_rank_is_refused(self, kernel, options, shapes, message):
        with pytest.raises(LaunchError, match=rf"{message}.* Pass launch_dims with"):
            jax_kernel(kernel, **options)(*map(jnp.ones, shapes))

    def test_the_rank_of_the_kernel_serves_its_gradient_too(self):
        x = jnp.ones((2, 3, 4))
        call = jax_kernel(each_layer, launch_dims=(3, 4), output_dims=x.shape, enable_backward=True)
        np.testing.assert_array_equal(call(x)[0], 2 * x)
        np.testing.assert_array_equal(jax.grad(lambda x: call(x)[0].sum())(x), 2 * x)

    def test_a_kernel_without_indices_and_dimensions_of_one_thread(self):
        assert jax_kernel(without_indices, output_dims=1)(jnp.full((2, 3), 5.0))[0].tolist() == [5]
        ones = jnp.ones(4)
        assert (
            jax_kernel(kernels.count_tiles, launch_dims=(4, 1), in_out_argnames=["tiles"])(ones)[0].tolist() == [2] * 4
        )
