"""jax_kernel under reverse mode: the adjoints that Warp generates against jnp in float64."""

import hashlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bridge import DifferentiationError, jax_kernel
from suites.unit.bridge import warp_kernels as kernels

RTOL = 1e-12
"""Each value is a handful of float64 operations, or a sum of a few dozen terms of one sign."""


pytestmark = pytest.mark.usefixtures("x64")


def random(*shape, seed=0, low=0.5, high=1.5):
    return np.random.default_rng([seed, *shape]).uniform(low, high, shape)


def digest(arrays):
    return [hashlib.sha256(np.asarray(array).tobytes()).hexdigest() for array in arrays]


def assert_gradients(call, reference, *args):
    """Gradients of a weighted sum of all float results, in all float arguments; the weights make cotangents differ."""
    floats = tuple(index for index, arg in enumerate(args) if arg.dtype.kind == "f")

    def gradients(function):
        def weighted(*args):
            results = [result for result in function(*args) if result.dtype.kind == "f"]
            return sum((result * random(*result.shape, seed=7)).sum() for result in results)

        return jax.grad(weighted, floats)

    given = [jax.device_put(arg) for arg in args]
    before = digest(given)
    pairs = jax.jit(lambda *args: list(zip(gradients(call)(*args), gradients(reference)(*args), strict=True)))(*given)
    for ours, expected in pairs:
        assert ours.dtype == expected.dtype
        np.testing.assert_allclose(ours, expected, rtol=RTOL, atol=1e-300)
    assert digest(given) == before


polar = jax_kernel(kernels.polar, num_outputs=2)
deposit = jax_kernel(kernels.deposit, in_out_argnames=["density"])
power = jax_kernel(kernels.power, in_out_argnames=["x"])
evens = jax_kernel(kernels.evens, in_out_argnames=["x"])
largest = jax_kernel(kernels.largest, in_out_argnames=["most"])
twice = jax_kernel(kernels.twice)
reads_output = jax_kernel(kernels.reads_output, num_outputs=2)
gather = jax_kernel(kernels.gather, num_outputs=2)


def polar_reference(radius, angle):
    return [radius * jnp.cos(angle), radius * jnp.sin(angle)]


def deposit_reference(mass, cell, density):
    return [density.at[cell].add(mass * mass)]


OF_VECTORS = {
    "in/out, overwritten": (power, lambda factor, x: [factor * x * x], random(33, seed=1)),
    "in/out, of which a part stays": (
        evens, lambda factor, x: [x.at[::2].set(factor[::2] ** 2)], random(33, seed=1),
    ),
    "the largest value": (largest, lambda x, most: [jnp.maximum(most, x.max())], np.zeros(1)),
    "stored over": (twice, lambda x: [jnp.sin(x)]),
    "an output that is read back": (reads_output, lambda x: [x**2, x**3]),
    "one that is read back and not used": (lambda x: reads_output(x)[1:], lambda x: [x**3]),
}  # fmt: skip
"""By what the kernel does: the call, its reference, and what it gets beside a vector."""


class TestKernels:
    @pytest.mark.parametrize("size", [1, 67])
    def test_several_inputs_and_outputs_and_an_in_out_argument_that_is_added_to(self, size):
        assert_gradients(polar, polar_reference, random(size), random(size, seed=1))
        cell = np.random.default_rng(size).integers(0, 5, size).astype(np.int32)
        assert_gradients(deposit, deposit_reference, random(size), cell, random(5))

    @pytest.mark.parametrize("name", OF_VECTORS)
    def test_what_becomes_of_a_vector(self, name):
        call, reference, *more = OF_VECTORS[name]
        assert_gradients(call, reference, random(33), *more)

    def test_vectors_and_values(self):
        axis = (0.6, 0.0, 0.8)

        def reference(points, angle):
            along = (points * jnp.array(axis)).sum(axis=1, keepdims=True) * jnp.array(axis)
            across = jnp.cross(jnp.array(axis), points)
            return [along + (points - along) * jnp.cos(angle) + across * jnp.sin(angle)]

        call = jax_kernel(kernels.turn)
        assert_gradients(lambda points, angle: call(points, angle, axis), reference, random(12, 3), random(1))

    def test_a_struct_in_a_struct_is_a_static_argument(self):
        lines, call = kernels.Lines(), jax_kernel(kernels.follow)
        lines.first.slope, lines.first.offset, lines.count = 3.0, (7.0, 5.0), 2
        assert_gradients(lambda x: call(x, lines), lambda x: [6 * x * x + 10], random(33))
        batched = jax.vmap(jax.grad(lambda x: call(x, lines)[0].sum()))(random(4, 5))
        np.testing.assert_allclose(batched, 12 * random(4, 5), rtol=RTOL)

    def test_integer_inputs_and_outputs_have_none(self):
        index = np.array([2, 0, 2, 1], np.int32)
        assert_gradients(gather, lambda x, index: [x[index] ** 2, index + 1], random(4), index)


class TestWithout:
    """Where there is no derivative, and how that is said."""

    @pytest.mark.parametrize(
        "options", [{"enable_backward": False}, {"has_side_effect": True}], ids=["switched off", "side effects"]
    )
    def test_a_wrapper_that_has_none(self, options):
        call = jax_kernel(kernels.twice, **options)
        np.testing.assert_allclose(call(random(5))[0], np.sin(random(5)), rtol=RTOL)
        with pytest.raises(DifferentiationError, match="twice has no derivative"):
            jax.grad(lambda x: call(x)[0].sum())(random(5))
        (option,) = options
        with pytest.raises(DifferentiationError, match=option):
            jax.grad(lambda x: call(x)[0].sum())(random(5))

    @pytest.mark.parametrize(
        "kernel", [kernels.reads_its_state, kernels.squares_its_output, kernels.squares_its_output_in_a_function]
    )
    def test_an_element_that_the_adjoint_would_read_with_another_value(self, kernel):
        def gradient(**options):
            call = jax_kernel(kernel, num_outputs=2, in_out_argnames=["s"], **options)
            return jax.grad(lambda s: call(random(5), s)[1].sum())(random(5))

        with pytest.raises(DifferentiationError, match=r"reads elements of (s|out) that it also stores to"):
            gradient()
        assert gradient(enable_backward=True).shape == (5,)

    def test_second_derivatives(self):
        with pytest.raises(DifferentiationError, match=r"twice( \(adjoint\))? has no derivative"):
            jax.grad(lambda x: jax.grad(lambda x: twice(x)[0].sum())(x).sum())(random(5))
