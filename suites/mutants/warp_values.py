"""Holds broken Warp kernels that are right on ordinary values and sizes, most of them in their derivatives."""

import functools

from suites.backends.backend import Backend
from suites.backends.warp import WarpKernel, scalar, wp
from suites.mutants.mutant import mutant
from suites.ops.relu import OPERATOR as RELU
from suites.ops.scale_add import OPERATOR as SCALE_ADD
from suites.ops.sigmoid import OPERATOR as SIGMOID


@functools.cache
def clamped_at_five_warp(dtype):
    element = scalar(dtype)

    @wp.kernel(module="unique", enable_backward=False)
    def relu(x: wp.array(dtype=element), out: wp.array(dtype=element)):
        i = wp.tid()
        out[i] = wp.where(x[i] <= element(0), element(0), wp.where(x[i] > element(5), element(5), x[i]))

    return relu


@functools.cache
def flat_beyond_five_warp(dtype):
    element = scalar(dtype)

    @wp.func
    def logistic(x: element):
        return element(1) / (element(1) + wp.exp(-x))

    @wp.func_grad(logistic)
    def adjoint_of_logistic(x: element, cotangent: element):
        value = element(1) / (element(1) + wp.exp(-x))
        if x <= element(5):
            wp.adjoint[x] += value * (element(1) - value) * cotangent

    @wp.kernel(module="unique")
    def sigmoid(x: wp.array(dtype=element), out: wp.array(dtype=element)):
        i = wp.tid()
        out[i] = logistic(x[i])

    return sigmoid


def _product_warp(dtype, counts):
    """``a b + c`` with a derivative of the product only where ``counts``, a Warp function, says so."""
    real = scalar(dtype)

    @wp.func
    def product(a: real, b: real, i: int):
        return a * b

    @wp.func_grad(product)
    def adjoint_of_product(a: real, b: real, i: int, cotangent: real):
        if counts(a, b, i):
            wp.adjoint[a] += b * cotangent
            wp.adjoint[b] += a * cotangent

    @wp.kernel(module="unique")
    def scale_add(a: wp.array(dtype=real), b: wp.array(dtype=real), c: wp.array(dtype=real), out: wp.array(dtype=real)):
        i = wp.tid()
        out[i] = product(a[i], b[i], i) + c[i]

    return scale_add


@functools.cache
def first_4096_warp(dtype):
    real = scalar(dtype)

    @wp.func
    def is_early(a: real, b: real, i: int):
        return i < 4096

    return _product_warp(dtype, is_early)


@functools.cache
def lost_at_zero_warp(dtype):
    real = scalar(dtype)

    @wp.func
    def is_not_zero(a: real, b: real, i: int):
        return a != real(0)

    return _product_warp(dtype, is_not_zero)


def _gradient(of, name, kernel, fault):
    return mutant(of, name, Backend.WARP, WarpKernel(kernel), fault, dtypes=("float32",))


MUTANTS = (
    mutant(
        RELU,
        "clamped_at_five",
        Backend.WARP,
        WarpKernel(clamped_at_five_warp),
        "numbers above five become five",
        dtypes=("float32",),
        gradient=None,
    ),
    _gradient(SIGMOID, "flat_beyond_five", flat_beyond_five_warp, "the derivative is zero for numbers above five"),
    _gradient(SCALE_ADD, "first_4096", first_4096_warp, "the derivative is zero from element 4096 on"),
    _gradient(SCALE_ADD, "lost_at_zero", lost_at_zero_warp, "the derivative is zero where one factor is zero"),
)
