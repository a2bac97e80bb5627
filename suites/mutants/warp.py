"""Holds broken Warp kernels."""

from jax import numpy as jnp

from bridge import warp_callable
from suites.backends import BACKENDS
from suites.backends.warp import WarpCallable, WarpKernel
from suites.declare.aspects import Gradient
from suites.kernels.warp.blocks import LANES, scalar, wp
from suites.kernels.warp.rows import rows_of
from suites.mutants.mutant import table
from suites.ops.csr_matvec import OPERATOR as CSR_MATVEC
from suites.ops.csr_matvec.warp import csr_matvec_warp
from suites.ops.matvec import OPERATOR as MATVEC
from suites.ops.matvec.warp import matvec_warp

MUTANTS, broken = table(BACKENDS["warp"])
FLOATS = wp.array(dtype=wp.float32)
DOUBLES = wp.array(dtype=wp.float64)
HALVES = wp.array(dtype=wp.float16)


def square(x):
    return x * x


@broken(lambda x: (x > 0).astype(x.dtype), "compiled", "elements below the threshold are not written")
@wp.kernel
def unwritten_below(x: FLOATS, out: FLOATS):
    i = wp.tid()
    if x[i] > 0.0:
        out[i] = 1.0


class _OnACpu(WarpKernel):
    def unsupported(self, platform):
        return None if platform == "cpu" else "on a GPU, only the memcheck of compute-sanitizer sees its fault"


@broken(lambda x: x * 2, "compiled", "reads the element after each one", make=_OnACpu)
@wp.kernel
def looks_ahead(x: FLOATS, out: FLOATS):
    i = wp.tid()
    ahead = x[i + 1]
    out[i] = x[i] * 2.0
    if ahead == 123.456:
        out[i] = x[i]


@broken(
    lambda x: jnp.sum(x, keepdims=True), "drawn", "the sum of float16 is always zero", dtypes=("float16",)
)  # fmt: skip
@wp.kernel
def half_zero(x: HALVES, out: HALVES):
    out[0] = wp.float16(0.0)


# Functions that launch kernels.


@wp.kernel
def double(x: FLOATS, out: FLOATS):
    i = wp.tid()
    out[i] = x[i] * 2.0


@wp.kernel
def add_to(x: FLOATS, out: FLOATS):
    i = wp.tid()
    out[i] = out[i] + x[i]


def recorded(function):
    return WarpCallable(lambda inputs, outs: warp_callable(function), calls=1, atomic=False)


@broken(lambda x: x * 2, "compiled", "a recorded launch has a thread too few", make=recorded)
def launches_too_few(x: FLOATS, out: FLOATS):
    wp.launch(double, dim=max(x.shape[0] - 1, 1), inputs=[x], outputs=[out])


@broken(lambda x: x * 2, "compiled", "adds to a temporary array that nothing has zeroed", make=recorded)
def adds_to_empty(x: FLOATS, out: FLOATS):
    total = wp.empty(x.shape, dtype=float)
    for _ in range(2):
        wp.launch(add_to, dim=x.shape, inputs=[x], outputs=[total])
    wp.copy(out, total)


# Derivatives.


@wp.func
def doubled(x: wp.float64):
    return x * x


@wp.func_grad(doubled)
def adjoint_of_doubled(x: wp.float64, cotangent: wp.float64):
    wp.adjoint[x] += wp.float64(4.0) * x * cotangent


@broken(square, "grad", "the derivative is twice too large", dtypes=("float64",), gradient=Gradient())
@wp.kernel
def doubled_gradient(x: DOUBLES, out: DOUBLES):
    i = wp.tid()
    out[i] = doubled(x[i])


@wp.func
def bent(x: float):
    return x * x


@wp.func_grad(bent)
def adjoint_of_bent(x: float, cotangent: float):
    if x > 5.0:
        wp.adjoint[x] += cotangent
    else:
        wp.adjoint[x] += 2.0 * x * cotangent


@broken(square, "drawn grad", "the derivative is wrong above five", gradient=Gradient())
@wp.kernel
def flat_beyond_five(x: FLOATS, out: FLOATS):
    i = wp.tid()
    out[i] = bent(x[i])


@wp.func
def cut(x: float, i: int):
    return x * x


@wp.func_grad(cut)
def adjoint_of_cut(x: float, i: int, cotangent: float):
    if i < 4096:
        wp.adjoint[x] += 2.0 * x * cotangent


@broken(square, "drawn grad", "the derivative is zero after 4096 elements", gradient=Gradient(inputs=(0,)))
@wp.kernel
def wrong_from_4096(x: FLOATS, out: FLOATS):
    i = wp.tid()
    out[i] = cut(x[i], i)


@broken(lambda x: x * 3, "drawn grad", "the derivative is zero at zero", gradient=Gradient(inputs=(0,)))
@wp.kernel
def zero_at_zero(x: FLOATS, out: FLOATS):
    i = wp.tid()
    if x[i] != 0.0:
        out[i] = x[i] * 3.0
    else:
        out[i] = 0.0


# Kernels of operators.


@broken(
    CSR_MATVEC, "compiled", "adds to an output that nothing has set to zero", name="no_initial_zeros",
    make=lambda it: WarpKernel(
        it, lambda inputs, outs: {"launch_dims": outs[0].shape[0] * LANES, "output_dims": outs[0].shape}
    ),
)  # fmt: skip
def _csr_matvec(dtype):
    return csr_matvec_warp(dtype)


class _OnAGpu(WarpKernel):
    def unsupported(self, platform):
        return None if platform == "cuda" else "on the CPU a block is one thread, which shares its row with no other"


_SUM_OF_WARP = """
    auto combined = value;
#if defined(__CUDA_ARCH__)
    for (int step = 16; step > 0; step /= 2)
        combined += __shfl_xor_sync(0xffffffff, combined, step);
#endif
    return combined;
"""


def _rows_of_a_warp(dtype):
    element = scalar(dtype)

    @wp.func_native(_SUM_OF_WARP)
    def total_of_block(value: element) -> element: ...

    return rows_of(dtype)._replace(total_of_block=total_of_block)


@broken(
    MATVEC, "large", "each warp of a block takes its own sum for the sum of the row",
    make=lambda it: _OnAGpu(it, MATVEC.kernels[BACKENDS["warp"]].options),
)  # fmt: skip
def own_warp_only(dtype):
    return matvec_warp(dtype, _rows_of_a_warp)
