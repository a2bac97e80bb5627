"""Holds broken Warp kernels, and good kernels in JAX functions with wrong batches, derivatives or dtypes."""

import functools

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jax.custom_derivatives import linear_call

import bridge
from suites.backends.backend import Backend
from suites.backends.warp import (
    FOUR,
    LANES,
    STREAM_THREADS,
    STREAM_TILE,
    WarpCallable,
    WarpKernel,
    blocks,
    scalar,
    vectors_of,
    wp,
)
from suites.backends.warp_scans import scan_launch, scan_of, scan_words
from suites.mutants.mutant import mutant
from suites.ops.add import OPERATOR as ADD
from suites.ops.add import add_warp
from suites.ops.csr_matmat import MOST_FOURS, csr_matmat_fours_warp, groups_of
from suites.ops.csr_matmat import OPERATOR as CSR_MATMAT
from suites.ops.csr_matvec import OPERATOR as CSR_MATVEC
from suites.ops.csr_matvec import csr_matvec_warp
from suites.ops.cumsum import OPERATOR as CUMSUM
from suites.ops.exp_decay import OPERATOR as EXP_DECAY
from suites.ops.hadamard import OPERATOR as HADAMARD
from suites.ops.hadamard import hadamard_warp
from suites.ops.leaky_relu import OPERATOR as LEAKY_RELU
from suites.ops.leaky_relu import SLOPE, leaky_relu_warp
from suites.ops.lif_step import OPERATOR as LIF_STEP
from suites.ops.relu import OPERATOR as RELU
from suites.ops.relu import relu_tiles
from suites.ops.scale_add import OPERATOR as SCALE_ADD
from suites.ops.sigmoid import OPERATOR as SIGMOID
from suites.ops.split_sign import OPERATOR as SPLIT_SIGN
from suites.ops.split_sign import split_sign_warp
from suites.ops.stencil import OPERATOR as STENCIL
from suites.ops.stencil import stencil_warp
from suites.ops.sum import OPERATOR as SUM

# Kernels.


@functools.cache
def lost_nan_warp(dtype):
    element = scalar(dtype)

    @wp.kernel(module="unique", enable_backward=False)
    def relu(x: wp.array(dtype=element), out: wp.array(dtype=element)):
        i = wp.tid()
        out[i] = wp.where(x[i] > element(0), x[i], element(0))

    return relu


@functools.cache
def whole_vectors_warp(dtype):
    """A thread takes four neighbours."""
    element = scalar(dtype)
    four, load, store, *_ = vectors_of(dtype)

    @wp.kernel(module="unique", enable_backward=False)
    def relu(x: wp.array(dtype=element), out: wp.array(dtype=element)):
        i = wp.tid() * FOUR
        if i + FOUR <= out.shape[0]:
            v = load(x, i)
            for k in range(FOUR):
                v[k] = wp.where(v[k] <= element(0), element(0), v[k])
            store(out, i, four(v[0], v[1], v[2], v[3]))

    return relu


def _thread_for_each_four(inputs, outs):
    return {"launch_dims": -(-outs[0].size // FOUR), "output_dims": outs[0].shape}


def first_columns(inputs, outs):
    """The good kernel on the first 32 columns, and the good function if there are fewer, or if they are no fours."""
    (rows, columns), dtype = outs[0].shape, str(outs[0].dtype)
    if columns <= MOST_FOURS * FOUR or columns % FOUR != 0:
        return CSR_MATMAT.kernels[Backend.WARP].make(inputs, outs)
    width, groups = groups_of(columns)
    return bridge.jax_kernel(
        csr_matmat_fours_warp(dtype, width, groups),
        launch_dims=(1, rows * width * groups),
        output_dims=(rows, columns),
    )


@functools.cache
def silent_threshold_warp(dtype):
    element = scalar(dtype)
    vector = wp.array(dtype=element)

    @wp.kernel(module="unique", enable_backward=False)
    def lif_step(
        V: vector,
        current: vector,
        tau_inv: vector,
        V_th: vector,
        V_rest: vector,
        dt: vector,
        V_out: vector,
        spikes: wp.array(dtype=wp.int32),
    ):
        i = wp.tid()
        v = V[i] + dt[0] * (-(V[i] - V_rest[0]) * tau_inv[0] + current[i])
        if v >= V_th[0]:
            V_out[i] = V_rest[0]
            spikes[i] = 1
        else:
            V_out[i] = v

    return lif_step


def _rows(inputs, outs):
    return {"launch_dims": outs[0].shape[0] * LANES, "output_dims": outs[0].shape}


def _full_tiles(inputs, outs):
    tiles = max(outs[0].size // STREAM_TILE, 1)
    return {**blocks(tiles, STREAM_THREADS), "output_dims": outs[0].shape}


# Kernels with their own derivatives.


@functools.cache
def doubled_gradient_warp(dtype):
    element = scalar(dtype)

    @wp.func
    def logistic(x: element):
        return element(1) / (element(1) + wp.exp(-x))

    @wp.func_grad(logistic)
    def adjoint_of_logistic(x: element, cotangent: element):
        value = element(1) / (element(1) + wp.exp(-x))
        wp.adjoint[x] += element(2) * value * (element(1) - value) * cotangent

    @wp.kernel(module="unique")
    def sigmoid(x: wp.array(dtype=element), out: wp.array(dtype=element)):
        i = wp.tid()
        out[i] = logistic(x[i])

    return sigmoid


@functools.cache
def missing_cotangent_warp(dtype):
    real = scalar(dtype)

    @wp.func
    def product(a: real, b: real):
        return a * b

    @wp.func_grad(product)
    def adjoint_of_product(a: real, b: real, cotangent: real):
        wp.adjoint[a] += b * cotangent

    @wp.kernel(module="unique")
    def scale_add(a: wp.array(dtype=real), b: wp.array(dtype=real), c: wp.array(dtype=real), out: wp.array(dtype=real)):
        i = wp.tid()
        out[i] = product(a[i], b[i]) + c[i]

    return scale_add


@functools.cache
def partial_cotangent_warp(dtype):
    element = scalar(dtype)
    vector = wp.array(dtype=element)

    @wp.func
    def decayed(x: element, decay: element, i: int):
        return x * wp.exp(-decay)

    @wp.func_grad(decayed)
    def adjoint_of_decayed(x: element, decay: element, i: int, cotangent: element):
        wp.adjoint[x] += wp.exp(-decay) * cotangent
        if i < 1024:  # the most threads of a block
            wp.adjoint[decay] -= x * wp.exp(-decay) * cotangent

    @wp.kernel(module="unique")
    def exp_decay(x: vector, decay: vector, out: vector):
        i = wp.tid()
        out[i] = decayed(x[i], decay[0], i)

    return exp_decay


@functools.cache
def squared_slope_warp(dtype):
    """Its derivative for negative numbers is the square of the right one, as in :func:`_squared_slope`."""
    element = scalar(dtype)
    slope = element(SLOPE)

    @wp.func
    def leaky(x: element):
        return wp.where(x > element(0), x, slope * x)

    @wp.func_grad(leaky)
    def adjoint_of_leaky(x: element, cotangent: element):
        wp.adjoint[x] += wp.where(x > element(0), element(1), slope * slope) * cotangent

    @wp.kernel(module="unique")
    def leaky_relu(x: wp.array(dtype=element), out: wp.array(dtype=element)):
        i = wp.tid()
        out[i] = leaky(x[i])

    return leaky_relu


@jax.custom_jvp
def _squared_slope(x):
    return jnp.where(x > 0, x, jnp.asarray(SLOPE, x.dtype) * x)


@_squared_slope.defjvp
def _squared_slope_jvp(primals, tangents):
    (x,), (tangent,) = primals, tangents
    slope = jnp.asarray(SLOPE, x.dtype)
    return _squared_slope(x), jnp.where(x > 0, tangent, slope * slope * tangent)


@functools.cache
def leaky_cotangent_warp(dtype):
    """The cotangent of the argument, from the argument and the cotangent of the result."""
    element = scalar(dtype)
    vector, slope = wp.array(dtype=element), element(SLOPE)

    @wp.kernel(module="unique", enable_backward=False)
    def leaky_cotangent(x: vector, cotangent: vector, out: vector):
        i = wp.tid()
        out[i] = wp.where(x[i] > element(0), cotangent[i], slope * cotangent[i])

    return leaky_cotangent


def _leaky_with(backward):
    """The good kernel with another derivative.

    Args:
        backward: Takes a dtype. Returns a function of the argument and the cotangent of the result.
    """

    def make(inputs, outs):
        dtype = str(inputs[0].dtype)
        kernel, pullback = bridge.jax_kernel(leaky_relu_warp(dtype)), backward(dtype)

        @jax.custom_vjp
        def leaky(x):
            return kernel(x)[0]

        leaky.defvjp(lambda x: (leaky(x), x), lambda x, cotangent: (pullback(x, cotangent),))
        return lambda x: [leaky(x)]

    return WarpCallable(make, calls=1)


def _by_xla(dtype):
    return lambda x, cotangent: jnp.where(x > 0, cotangent, jnp.asarray(SLOPE, dtype) * cotangent)


def _wrong_in_batch(dtype):
    kernel = bridge.jax_kernel(leaky_cotangent_warp(dtype))

    @custom_vmap
    def pullback(x, cotangent):
        return kernel(x, cotangent)[0]

    @pullback.def_vmap
    def _(axis_size, batched, x, cotangents):
        # The derivative at the first element of the batch, for all of them.
        return jax.vmap(kernel, in_axes=(None, 0))(x[0], cotangents)[0], True

    return pullback


def _wrong_alone(dtype):
    kernel = bridge.jax_kernel(leaky_cotangent_warp(dtype))

    @custom_vmap
    def pullback(x, cotangent):
        return kernel(cotangent, x)[0]

    @pullback.def_vmap
    def _(axis_size, batched, x, cotangents):
        return jax.vmap(kernel)(x, cotangents)[0], True

    return pullback


def without_batching(inputs, outs):
    """A linear function that JAX can differentiate and transpose, but not batch in between."""
    kernel = bridge.jax_kernel(hadamard_warp(str(outs[0].dtype)))

    def times(factor, x):
        return kernel(factor.reshape(-1), x.reshape(-1))[0].reshape(x.shape)

    @jax.custom_jvp
    def product(A, B):
        return times(A, B)

    @product.defjvp
    def _(primals, tangents):
        (A, B), (A_dot, B_dot) = primals, tangents
        return product(A, B), linear_call(_tangent, _cotangents, (A, B), (A_dot, B_dot))

    def _tangent(factors, tangents):
        A, B = factors
        return times(B, tangents[0]) + A * tangents[1]

    def _cotangents(factors, cotangent):
        A, B = factors
        return times(B, cotangent), A * cotangent

    return lambda A, B: [product(A, B)]


# JAX functions around good kernels.


def without_kernel(inputs, outs):
    return lambda x, y: [x + y]


def host_callback(inputs, outs):
    kernel = bridge.jax_kernel(add_warp(str(outs[0].dtype)))

    def call(x, y):
        (total,) = kernel(x, y)
        jax.debug.callback(lambda total: None, total)
        return [total]

    return call


@functools.cache
def given_slope_warp(dtype):
    vector = wp.array(dtype=scalar(dtype))

    @wp.kernel(module="unique", enable_backward=False)
    def leaky_relu(x: vector, slope: vector, out: vector):
        i = wp.tid()
        out[i] = wp.where(x[i] > slope.dtype(0), x[i], slope[0] * x[i])

    return leaky_relu


def slope_of_default_precision(inputs, outs):
    kernel = bridge.jax_kernel(given_slope_warp(str(outs[0].dtype)))
    return lambda x: kernel(x, jnp.full(1, SLOPE))


@functools.cache
def add_to_warp(dtype):
    vector = wp.array(dtype=scalar(dtype))

    @wp.kernel(module="unique", enable_backward=False)
    def add_to(total: vector, x: vector, start: wp.array(dtype=wp.int32), out: vector):
        running = total[0]
        for i in range(start[0], wp.min(start[0] + 64, x.shape[0])):
            running += x[i]
        out[0] = running

    return add_to


def unvarying_carry(inputs, outs):
    """A loop whose carry begins as zeros, the same on all devices, and ends as a sum, which differs between devices."""
    kernel = bridge.jax_kernel(add_to_warp(str(outs[0].dtype)))
    steps = max(-(-inputs[0].shape[0] // 64), 1)

    def call(x):
        starts = 64 * jnp.arange(steps, dtype=jnp.int32)[:, None]
        total, _ = jax.lax.scan(lambda total, start: (kernel(total, x, start)[0], None), jnp.zeros(1, x.dtype), starts)
        return [total]

    return call


def _batched_by(rule, kernel_of):
    """A good kernel with a batching rule, which takes its function, the size of the batch and the operands."""

    def make(inputs, outs):
        kernel = kernel_of(inputs, outs)
        call = custom_vmap(lambda *operands: list(kernel(*operands)))

        @call.def_vmap
        def _(axis_size, batched, *operands):
            return rule(kernel, axis_size, batched, *operands), [True] * len(outs)

        return call

    return WarpCallable(make, calls=1)


def _spread(axis_size, batched, operands):
    """The operands with the batch axis in front. Operands without a batch are repeated."""
    return [
        operand if has_batch else jnp.broadcast_to(operand, (axis_size, *operand.shape))
        for operand, has_batch in zip(operands, batched, strict=True)
    ]


def _hadamard(inputs, outs):
    kernel = bridge.jax_kernel(hadamard_warp(str(outs[0].dtype)))
    return lambda A, B: [kernel(A.reshape(-1), B.reshape(-1))[0].reshape(A.shape)]


def flattened(kernel, axis_size, batched, A, B):
    """Makes each matrix of the batch a row, whose length cannot be inferred from an empty batch."""
    (products,) = kernel(*[each.reshape(axis_size, -1) for each in _spread(axis_size, batched, (A, B))])
    return [products.reshape(A.shape if batched[0] else B.shape)]


def transposed_strides(kernel, axis_size, batched, x):
    """Calls once for the whole batch, and reads the results as if the batch were the last axis."""
    return [out.reshape(x.shape[::-1]).T for out in kernel(x.reshape(-1))]


def first_for_all(kernel, axis_size, batched, u, rate):
    """Assumes that all elements of the batch share one grid."""
    u, rate = _spread(axis_size, batched, (u, rate))
    return jax.vmap(kernel, in_axes=(None, 0))(u[0], rate)


def all_batched(kernel, axis_size, batched, x, y):
    """Mistakes the first axis of an operand that all elements share for the batch."""
    return jax.vmap(kernel)(*[operand if operand.ndim > 1 else operand[:axis_size, None] + 0 * x for operand in (x, y)])


def words_in_use(inputs, outs):
    """Gives each scan the words that another one has left."""
    dtype, size = str(inputs[0].dtype), inputs[0].shape[0]
    call = bridge.jax_kernel(scan_of(dtype), 2, in_out_argnames=["words"], output_dims=size, **scan_launch(size, dtype))

    def scan(x):
        words, sums = call(jnp.flip(x), jnp.zeros(scan_words(size, dtype), jnp.uint32))
        _, sums = call(x + 0 * sums, words)
        return [sums]

    return scan


def scan_forwards(inputs, outs):
    """A cotangent has the sum of those up to it, not of those from it on."""
    scan = CUMSUM.kernels[Backend.WARP].make(inputs, outs)

    @jax.custom_vjp
    def cumsum(x):
        return scan(x)[0]

    cumsum.defvjp(lambda x: (cumsum(x), None), lambda _, cotangent: (cumsum(cotangent),))
    return lambda x: [cumsum(x)]


def _warp(of, name, kernel, fault, **changes):
    """A mutant in one dtype only, which is enough to catch it. It has a gradient only if the gradient is broken."""
    changes = {"dtypes": ("float32",), "gradient": None} | changes
    return mutant(of, name, Backend.WARP, kernel, fault, **changes)


def _gradient(of, name, kernel, fault, **changes):
    """Like :func:`_warp`, in the dtype in which derivatives are compared with differences."""
    return _warp(of, name, kernel, fault, **({"dtypes": ("float64",), "gradient": of.gradient} | changes))


MUTANTS = (
    _warp(
        CUMSUM,
        "words_in_use",
        WarpCallable(words_in_use, calls=2),
        "blocks find the words of another scan",
    ),
    _gradient(
        CUMSUM,
        "scan_forwards",
        WarpCallable(scan_forwards, calls=1),
        "the derivative is summed up from the wrong end",
    ),
    _warp(RELU, "lost_nan", WarpKernel(lost_nan_warp), "NaN becomes zero"),
    mutant(
        RELU,
        "lost_tile",
        Backend.WARP_TILE,
        WarpKernel(relu_tiles, _full_tiles),
        "elements after the last whole tile are never written",
        dtypes=("float32",),
        gradient=None,
    ),
    _warp(
        RELU,
        "whole_vectors",
        WarpKernel(whole_vectors_warp, _thread_for_each_four),
        "elements after the last whole vector are never written",
    ),
    _warp(
        CSR_MATMAT,
        "first_columns",
        WarpCallable(first_columns, calls=1, atomic=True),
        "columns after the first 32 are never written",
    ),
    _warp(LIF_STEP, "unwritten_spikes", WarpKernel(silent_threshold_warp), "neurons that do not spike are not written"),
    _warp(
        CSR_MATVEC,
        "no_initial_zeros",
        WarpKernel(
            csr_matvec_warp,
            lambda inputs, outs: {"launch_dims": outs[0].shape[0] * LANES, "output_dims": outs[0].shape},
        ),
        "adds to an output that nothing has set to zero",
    ),
    _gradient(
        SIGMOID, "doubled_gradient", WarpKernel(doubled_gradient_warp), "the derivative is too large by a factor of two"
    ),
    _gradient(SCALE_ADD, "missing_cotangent", WarpKernel(missing_cotangent_warp), "one factor has no derivative"),
    _gradient(
        EXP_DECAY,
        "partial_cotangent",
        WarpKernel(partial_cotangent_warp),
        "only the first 1024 elements count in the derivative of the parameter",
    ),
    _gradient(
        LEAKY_RELU,
        "wrong_reference",
        WarpKernel(squared_slope_warp),
        "the derivative is wrong in kernel and reference alike",
        reference=lambda x: [_squared_slope(x)],
    ),
    _gradient(LEAKY_RELU, "gradient_by_xla", _leaky_with(_by_xla), "XLA computes the derivative, not a kernel"),
    _gradient(LEAKY_RELU, "gradient_of_first", _leaky_with(_wrong_in_batch), "batches share the first derivative"),
    _gradient(LEAKY_RELU, "gradient_wrong_alone", _leaky_with(_wrong_alone), "only batches of derivatives are right"),
    _gradient(
        HADAMARD,
        "without_batching",
        WarpCallable(without_batching, calls=1),
        "the derivative of a batch needs a rule that JAX does not have",
    ),
    _warp(ADD, "without_kernel", WarpCallable(without_kernel, calls=1), "XLA adds, the kernel is never called"),
    _warp(ADD, "host_callback", WarpCallable(host_callback, calls=1), "calls back to Python, which cannot be exported"),
    _warp(
        LEAKY_RELU,
        "default_precision",
        WarpCallable(slope_of_default_precision, calls=1),
        "a constant has the precision of the mode that JAX is in",
    ),
    _warp(SUM, "unvarying_carry", WarpCallable(unvarying_carry, calls=1), "a loop that shard_map refuses"),
    _warp(HADAMARD, "flattened_batch", _batched_by(flattened, _hadamard), "a shape that batches of none do not have"),
    _warp(
        SPLIT_SIGN,
        "transposed_batch",
        _batched_by(
            transposed_strides,
            lambda inputs, outs: bridge.jax_kernel(split_sign_warp(str(inputs[0].dtype)), num_outputs=2),
        ),
        "strides of the batch are transposed",
    ),
    _warp(
        STENCIL,
        "first_for_all",
        _batched_by(first_for_all, lambda inputs, outs: bridge.jax_kernel(stencil_warp(str(inputs[0].dtype)))),
        "the batch of the first operand is ignored",
    ),
    _warp(
        ADD,
        "all_batched",
        _batched_by(all_batched, lambda inputs, outs: bridge.jax_kernel(add_warp(str(inputs[0].dtype)))),
        "an operand without a batch is taken for one with it",
    ),
)
