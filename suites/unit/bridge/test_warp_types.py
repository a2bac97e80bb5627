"""jax_kernel: the types of arrays and of values, and the functions that name them."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bridge import SignatureError, jax_kernel, jaxinfo_to_warpinfo, jaxtype_to_warptype
from suites.backends.warp_blocks import wp
from suites.unit.bridge import warp_kernels as kernels

X = jnp.arange(1.0, 4.0)


@pytest.fixture
def x64():
    with jax.enable_x64(True):
        yield


def random_bits(dtype, shape):
    """Any bits, NaN of every kind among them."""
    bits = np.random.default_rng(0).bytes(int(np.prod(shape)) * jnp.dtype(dtype).itemsize)
    if dtype == "bool":
        return np.frombuffer(bits, np.uint8).reshape(shape) % 2 == 1
    return np.frombuffer(bits, jnp.dtype(dtype)).reshape(shape)


class TestArrays:
    @pytest.mark.parametrize("dtype", kernels.SCALARS)
    def test_every_dtype_passes_through_bit_for_bit(self, x64, dtype):
        x = random_bits(dtype, (257,))
        for kernel in (kernels.reverse, kernels.REVERSE[dtype]):
            (result,) = jax_kernel(kernel)(x)
            assert result.dtype == x.dtype
            assert np.asarray(result).tobytes() == x[::-1].tobytes()

    @pytest.mark.parametrize(
        ("element", "dtype", "inner"),
        [
            ("vec2", "float32", (2,)),
            ("vec3", "float32", (3,)),
            ("vec4", "float32", (4,)),
            ("vec3h", "float16", (3,)),
            ("vec4ub", "uint8", (4,)),
            ("vec7", "int16", (7,)),
            ("mat22", "float32", (2, 2)),
            ("mat33", "float32", (3, 3)),
            ("mat23", "float32", (2, 3)),
            ("mat44d", "float64", (4, 4)),
            ("quat", "float32", (4,)),
            ("quatd", "float64", (4,)),
            ("transform", "float32", (7,)),
            ("spatial_vector", "float32", (6,)),
        ],
    )
    def test_elements_are_the_last_dimensions(self, x64, element, dtype, inner):
        x = random_bits(dtype, (37, *inner))
        (result,) = jax_kernel(kernels.REVERSE[element])(x)
        assert result.dtype == x.dtype
        assert np.asarray(result).tobytes() == x[::-1].tobytes()

    @pytest.mark.parametrize("inner", [(2,), (3,), (4,), (2, 2), (3, 3), (2, 3)])
    def test_a_generic_array_takes_vectors_and_matrices_by_rank(self, inner):
        x = random_bits("float32", (5, *inner))
        (result,) = jax_kernel(kernels.reverse)(x)
        assert np.asarray(result).tobytes() == x[::-1].tobytes()

    def test_matrices_are_row_major_and_quaternions_end_with_their_real_part(self):
        m, q = jnp.arange(12.0).reshape(2, 2, 3), jnp.arange(8.0).reshape(2, 4)
        (result,) = jax_kernel(kernels.entries, launch_dims=2, output_dims=(2, 3))(m, q)
        np.testing.assert_array_equal(result, jnp.stack([m[:, 0, 2], m[:, 1, 0], q[:, 3]], axis=1))

    @pytest.mark.parametrize("rank", [1, 2, 3, 4])
    def test_arrays_have_one_to_four_dimensions(self, rank):
        shape = (2, 3, 5, 4)[:rank]
        x = jnp.arange(np.prod(shape), dtype=jnp.int32).reshape(shape)
        position = sum(10 ** (rank - 1 - axis) * index for axis, index in enumerate(np.indices(shape)))
        (result,) = jax_kernel(getattr(kernels, f"index{rank}"))(x)
        np.testing.assert_array_equal(result, 10**rank * x + position)

    def test_arrays_in_another_memory_order_reach_the_kernel_row_major(self):
        x = jnp.arange(6, dtype=jnp.int32).reshape(2, 3)
        call = jax_kernel(kernels.index2)
        expected = 100 * x.T + 10 * np.arange(3)[:, None] + np.arange(2)
        np.testing.assert_array_equal(jax.jit(lambda x: call(x.T))(x)[0], expected)
        np.testing.assert_array_equal(call(np.asfortranarray(x).T)[0], expected)

    def test_subscripts_are_annotations_too(self):
        @wp.kernel(module="unique", enable_backward=False)
        def subtract(x: wp.array2d[float], y: wp.array[wp.float32], out: wp.array2d[wp.float32]):
            i, j = wp.tid()
            out[i, j] = x[i, j] - y[j]

        x, y = jnp.arange(6.0).reshape(2, 3), jnp.arange(3.0)
        np.testing.assert_array_equal(jax_kernel(subtract)(x, y)[0], x - y)

    def test_a_generic_kernel_serves_several_dtypes_of_one_wrapper(self, x64):
        call = jax_kernel(kernels.scale_any)
        for dtype in ("float32", "int32", "float64", "float32"):
            (result,) = call(jnp.arange(4, dtype=dtype), 3)
            assert result.dtype == dtype
            np.testing.assert_array_equal(result, [0, 3, 6, 9])
        matrices = jnp.arange(8.0, dtype="float32").reshape(2, 2, 2)
        np.testing.assert_array_equal(call(matrices, 0.5)[0], matrices / 2)

    def test_vectors_of_any_length(self):
        @wp.kernel(module="unique", enable_backward=False)
        def lengths(x: wp.array(dtype=wp.types.vector(length=Any, dtype=wp.float32)), out: kernels.VECTOR):
            i = wp.tid()
            out[i] = wp.length(x[i])

        call = jax_kernel(lengths)
        np.testing.assert_array_equal(call(jnp.array([[3.0, 4.0]]))[0], [5])
        np.testing.assert_array_equal(call(jnp.array([[2.0, 3.0, 6.0]]))[0], [7])

    def test_64_bit_outputs_need_x64(self):
        with pytest.raises(SignatureError, match=r"values: output 0 is declared float64, .*jax_enable_x64"):
            jax_kernel(kernels.values, launch_dims=1, output_dims=8)(1.0, 1, True, 1, 1, 1, 1, 1.0)


class TestValues:
    def convert(self, *values):
        (result,) = jax_kernel(kernels.values, launch_dims=1, output_dims=8)(*values)
        return result.tolist()

    EXTREMES = (-1.5, -(2**31), True, -128, 255, -(2**53), 2**63, 65504.0)

    def test_every_type_of_value_arrives(self, x64):
        assert self.convert(*self.EXTREMES) == list(self.EXTREMES)
        assert self.convert(0.1, 7, False, 127, 0, 5, 0, -0.5) == [float(np.float32(0.1)), 7, 0, 127, 0, 5, 0, -0.5]

    @pytest.mark.parametrize(
        "wrap",
        [
            lambda name, value: getattr(wp, name)(value),
            lambda name, value: np.dtype(name).type(value),
            lambda name, value: np.full((), value, name),
            lambda name, value: jnp.asarray(value, name),
        ],
        ids=["Warp's scalars", "NumPy's scalars", "arrays of rank 0", "JAX's arrays"],
    )
    def test_values_come_as_numbers_of_any_library(self, x64, wrap):
        names = ("float32", "int32", "bool", "int8", "uint8", "int64", "uint64", "float16")
        given = [wrap(name, value) for name, value in zip(names, self.EXTREMES, strict=True)]
        assert self.convert(*given) == list(self.EXTREMES)

    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
    def test_values_that_are_not_finite(self, x64, value):
        result = self.convert(value, 0, False, 0, 0, 0, 0, value)
        np.testing.assert_array_equal([result[0], result[7]], [value, value])

    @pytest.mark.parametrize(
        "wrap",
        [
            pytest.param((lambda v: v, lambda m: m, lambda h: h), id="lists"),
            pytest.param((np.float32, np.float32, np.float16), id="NumPy's arrays"),
            pytest.param((jnp.float32, jnp.float32, jnp.float16), id="JAX's arrays"),
            pytest.param((wp.vec3, wp.mat33, wp.vec3h), id="Warp's vectors"),
        ],
    )
    def test_vectors_and_matrices(self, wrap):
        vector, matrix, half = (
            of(value)
            for of, value in zip(
                wrap, ([1.0, 2.0, 3.0], np.arange(9.0).reshape(3, 3).tolist(), [0.5, 1.5, 2.5]), strict=True
            )
        )
        rows = np.arange(6.0).reshape(2, 3)
        (result,) = jax_kernel(kernels.composites, launch_dims=1, output_dims=4)(vector, matrix, half, rows)
        assert result.tolist() == [3.0, 2.0, 1.5, 2.0]

    @pytest.mark.parametrize(("position", "shape"), [(0, (3, 1)), (3, (3, 2))], ids=["vector", "matrix"])
    def test_a_value_of_another_shape_is_refused_even_if_it_has_as_many_numbers(self, position, shape):
        values = [np.zeros(3), np.zeros((3, 3)), np.zeros(3), np.zeros((2, 3))]
        values[position] = np.zeros(shape)
        with pytest.raises(SignatureError, match=r"composites: '(v|rows)'"):
            jax_kernel(kernels.composites, launch_dims=1, output_dims=4)(*values)

    @pytest.mark.parametrize("values", [(0.0, -0.0), (-0.0, 0.0)])
    def test_zeros_of_both_signs_are_different_values(self, values):
        call = jax_kernel(kernels.reciprocals)
        for given in (lambda v: v, np.float32, wp.float32):
            signs = [np.signbit(call(X, given(value))[0]).tolist() for value in values]
            assert signs == [[bool(np.signbit(value))] * 3 for value in values]

    def test_numbers_of_equal_hash_but_different_type_are_each_converted(self, x64):
        for number in (1, True, 1.0, 0.0, False, 0, np.True_, np.int8(1)):
            assert self.convert(*[number] * 8) == [float(number)] * 8
        call = jax_kernel(kernels.scale_any)
        ones = jnp.ones(1, jnp.int64)
        assert int(call(ones, 2**53 + 1)[0][0]) == 2**53 + 1
        assert int(call(ones, float(2**53))[0][0]) == 2**53

    def test_values_are_static_under_jit(self):
        call = jax_kernel(kernels.scale)
        static = jax.jit(lambda x, factor: call(x, factor)[0], static_argnums=1)
        for factor in (2.0, 3.0, 2.0):
            np.testing.assert_array_equal(static(X, factor), factor * X)


class TestHelpers:
    @pytest.mark.parametrize("dtype", kernels.SCALARS)
    def test_each_dtype_has_its_warp_type(self, dtype):
        expected = getattr(wp, dtype)
        for given in (dtype, jnp.dtype(dtype), getattr(jnp, dtype if dtype != "bool" else "bool_")):
            assert jaxtype_to_warptype(given) is expected

    @pytest.mark.parametrize("rank", [1, 2, 3, 4])
    def test_the_annotation_has_dtype_and_rank(self, rank):
        annotation = jaxinfo_to_warpinfo(jax.ShapeDtypeStruct((2, 0, 5, 1)[:rank], jnp.float32))
        assert (annotation.dtype, annotation.ndim) == (wp.float32, rank)

    def test_kernels_are_annotated_with_them(self):
        x = jnp.arange(6, dtype=jnp.int16).reshape(2, 3)
        array = jaxinfo_to_warpinfo(x)

        @wp.kernel(module="unique", enable_backward=False)
        def transpose(x: array, out: array):
            i, j = wp.tid()
            out[j, i] = x[i, j]

        np.testing.assert_array_equal(jax_kernel(transpose, output_dims=(3, 2))(x)[0], x.T)
