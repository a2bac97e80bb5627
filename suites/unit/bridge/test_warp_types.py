"""jax_kernel: the types of arrays and of values, and the functions that name them."""

import jax.numpy as jnp
import numpy as np
import pytest

from bridge import jax_kernel
from suites.kernels.warp.blocks import wp
from suites.unit.bridge import warp_kernels as kernels


def random_bits(dtype, shape):
    """Any bits, NaN of every kind among them."""
    bits = np.random.default_rng(0).bytes(int(np.prod(shape)) * jnp.dtype(dtype).itemsize)
    if dtype == "bool":
        return np.frombuffer(bits, np.uint8).reshape(shape) % 2 == 1
    return np.frombuffer(bits, jnp.dtype(dtype)).reshape(shape)


class TestArrays:
    @pytest.mark.parametrize("name", kernels.ELEMENTS)
    def test_every_dtype_passes_bit_for_bit_and_elements_are_the_last_dimensions(self, x64, name):
        element = kernels.ELEMENTS[name]
        dtype = name if name in kernels.SCALARS else element._wp_scalar_type_.__name__
        x = random_bits(dtype, (37, *getattr(element, "_shape_", ())))
        (result,) = jax_kernel(kernels.REVERSE[name])(x)
        assert result.dtype == x.dtype
        assert np.asarray(result).tobytes() == x[::-1].tobytes()

    def test_a_generic_kernel_serves_several_dtypes_of_one_wrapper(self, x64):
        call = jax_kernel(kernels.scale_any)
        for dtype in ("float32", "int32", "float64", "float32"):
            (result,) = call(jnp.arange(4, dtype=dtype), 3)
            assert result.dtype == dtype
            np.testing.assert_array_equal(result, [0, 3, 6, 9])
        matrices = jnp.arange(8.0, dtype="float32").reshape(2, 2, 2)
        np.testing.assert_array_equal(call(matrices, 0.5)[0], matrices / 2)


class TestValues:
    NAMES = ("float32", "int32", "bool", "int8", "uint8", "int64", "uint64", "float16")
    EXTREMES = (-1.5, -(2**31), True, -128, 255, -(2**53), 2**63, 65504.0)

    @pytest.mark.parametrize("wrap", [lambda name: getattr(wp, name), lambda name: np.dtype(name).type])
    def test_numbers_of_any_library(self, x64, wrap):
        given = [wrap(name)(value) for name, value in zip(self.NAMES, self.EXTREMES, strict=True)]
        assert jax_kernel(kernels.values, launch_dims=1, output_dims=8)(*given)[0].tolist() == list(self.EXTREMES)

    @pytest.mark.parametrize(
        ("vector", "matrix", "half"),
        [(np.float32, np.float32, np.float16), (wp.vec3, wp.mat33, wp.vec3h), (list, list, list)],
        ids=["arrays", "Warp's vectors", "lists"],
    )
    def test_vectors_and_matrices(self, vector, matrix, half):
        given = vector([1.0, 2.0, 3.0]), matrix(np.arange(9.0).reshape(3, 3).tolist()), half([0.5, 1.5, 2.5])
        call = jax_kernel(kernels.composites, launch_dims=1, output_dims=4)
        assert call(*given, np.arange(6.0).reshape(2, 3))[0].tolist() == [3.0, 2.0, 1.5, 2.0]
