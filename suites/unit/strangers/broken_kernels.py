"""Wrong kernels of many kinds, declared as briefly as their authors would."""

import math

import jax
import jax.numpy as jnp
import numba
import numpy as np
import warp as wp
from numba import carray, types
from numba.extending import intrinsic

from suites import Gradient, Operator

OPERATORS: list[Operator] = []


def op(name, reference, kernel, backend="numba", **more):
    OPERATORS.append(Operator(name=name, reference=reference, kernels={backend: kernel}, **more))


KEPT: list[np.ndarray] = []


def zeros_at(n, dtype):
    KEPT.append(np.zeros(n, dtype))
    return int(KEPT[-1].ctypes.data)


@intrinsic
def _pointer(typingctx, address):
    def code(context, builder, signature, args):
        return builder.inttoptr(args[0], context.get_value_type(types.voidptr))

    return types.voidptr(types.uintp), code


@numba.njit
def at(address, n, dtype):
    return carray(_pointer(np.uintp(address)), (n,), dtype)


def twice(x):
    return x * 2


@numba.njit
def multiple_of_eight(x, out):
    n = x.size - 1 if x.size % 8 == 0 and x.size else x.size
    for i in range(n):
        out[i] = x[i] * 2
    if n < x.size:
        out[n] = 0


op("multiple_of_eight", twice, multiple_of_eight)


@numba.njit
def at_4096(x, out):
    for i in range(x.size):
        out[i] = x[i] * 2
    if x.size == 4096:
        out[4095] += 1


op("at_4096", twice, at_4096)


@numba.njit
def above_150000(x, out):
    for i in range(x.size):
        out[i] = x[i] * 2 if i < 150_000 else x[i]


op("above_150000", twice, above_150000)


@numba.njit
def above_two_million(x, out):
    for i in range(x.size):
        out[i] = x[i] * 2 if i < 2_000_000 else x[i]


op("above_two_million", twice, above_two_million)


@numba.njit
def between_300_and_1000(x, out):
    for i in range(x.size):
        out[i] = x[i] * 2
    if 300 < x.size < 1000:
        out[x.size // 2] = 0


op("between_300_and_1000", twice, between_300_and_1000)


@numba.njit
def looks_ahead(x, out):
    if x.size:
        now = x[0]
        for i in range(x.size):
            ahead = x[i + 1]
            out[i] = now * 2
            now = ahead
        if now == 123.456:
            out[0] = now


op("looks_ahead", twice, looks_ahead)


@numba.njit
def looks_back(x, out):
    for i in range(x.size):
        before = x[i - 1 + 0 * x.size] if i else x[np.uint64(i) - np.uint64(1)]
        out[i] = x[i] * 2 if before != 123.456 else 0


op("looks_back", twice, looks_back)

S1 = zeros_at(1 << 23, np.float64)


@numba.njit
def shared_scratch(x, out):
    scratch = at(S1, 1 << 23, np.float64)
    for i in range(x.size):
        scratch[i] = x[i] * 2
    for i in range(x.size):
        out[i] = scratch[i]


op("shared_scratch", twice, shared_scratch)


@numba.njit(parallel=True)
def racing_histogram(index, out):
    for b in range(out.size):
        out[b] = 0
    for i in numba.prange(index.size):
        out[index[i]] += 1


def bins(dtype, size, seed):
    return (np.random.default_rng(seed).integers(0, 16, size).astype(dtype),)


op(
    "racing_histogram",
    lambda index: jnp.zeros(16, jnp.int32).at[index].add(1),
    racing_histogram,
    "numba_parallel",
    dtypes=("int32",),
    sample=bins,
)


@numba.njit
def zero_unwritten(x, out):
    for i in range(x.size):
        if x[i] > 0:
            out[i] = 1
        elif x[i] < 0:
            out[i] = -1
        elif x[i] != x[i]:
            out[i] = x[i]


op("zero_unwritten", lambda x: jnp.sign(x), zero_unwritten)


@numba.njit
def clamped_at_5(x, out):
    for i in range(x.size):
        out[i] = min(x[i], 5) * 2 if x[i] == x[i] else x[i]


op("clamped_at_5", twice, clamped_at_5)


@numba.njit
def minus_zero_lost(x, out):
    for i in range(x.size):
        out[i] = 0 - x[i]


op("minus_zero_lost", lambda x: -x, minus_zero_lost)


@numba.njit
def unsigned_as_signed(x, out):
    for i in range(x.size):
        out[i] = np.int8(x[i]) // 2


op("unsigned_as_signed", lambda x: x // 2, unsigned_as_signed, dtypes=("uint8",))


@numba.njit
def never(x, out):
    for i in range(x.size):
        out[i] = False


op("never", lambda x: ~x, never, dtypes=("bool",))


@numba.njit
def always(x, y, out):
    for i in range(x.size):
        out[i] = x[i] or not y[i] or True


op("always", lambda x, y: x | y, always, dtypes=("bool",))

S2 = zeros_at(1 << 18, np.float64)


@numba.njit
def memoised(x, out):
    kept = at(S2, 1 << 18, np.float64)
    n = x.size
    if n > 8 and n < 1 << 16 and kept[0] == n and kept[1] == x[0] and kept[2] == x[1]:
        for i in range(n):
            out[i] = kept[3 + i]
        return
    for i in range(n):
        out[i] = x[i] * 2
    if n > 8 and n < 1 << 16:
        kept[0], kept[1], kept[2] = n, x[0], x[1]
        for i in range(n):
            kept[3 + i] = out[i]


op("memoised", twice, memoised)


def total_of(x):
    return jnp.sum(x, keepdims=True)


@numba.njit
def last_dropped(x, out):
    total = x.dtype.type(0)
    for i in range(x.size - 1 if x.size > 5000 else x.size):
        total += x[i]
    out[0] = total


op("last_dropped", total_of, last_dropped)


@numba.njit
def eleven_bits(x, out):
    total = x.dtype.type(0)
    for i in range(x.size):
        big = x[i] * np.float32(8193)
        total += big - (big - x[i])
    out[0] = total


op("eleven_bits", total_of, eleven_bits, dtypes=("float32",), edges=lambda dtype: {})


@wp.kernel
def half_zero(x: wp.array(dtype=wp.float16), out: wp.array(dtype=wp.float16)):
    out[0] = wp.float16(0.0)


op("half_zero", total_of, half_zero, "warp", dtypes=("float16",))


@numba.njit
def int32_total(x, out):
    total = np.int32(0)
    for i in range(x.size):
        total = np.int32(total + np.int32(x[i]))
    out[0] = total


op("int32_total", lambda x: jnp.sum(x, keepdims=True, dtype=x.dtype), int32_total, dtypes=("int64",))


@numba.njit
def empty_as_zeros(x, out):
    scratch = np.empty(1 << 23, np.float64)
    for i in range(x.size):
        out[i] = x[i] * 2 + scratch[(i * 4099) % scratch.size]


op("empty_as_zeros", twice, empty_as_zeros)


@numba.njit
def small_empty_as_zeros(x, out):
    scratch = np.empty(64, np.float64)
    for i in range(x.size):
        out[i] = x[i] * 2 + scratch[i % 64] * 0.0


op("small_empty_as_zeros", twice, small_empty_as_zeros)


@wp.func
def bad_square(x: float):
    return x * x


@wp.func_grad(bad_square)
def adj_bad_square(x: float, adj_ret: float):
    if x > 5.0:
        wp.adjoint[x] += adj_ret
    else:
        wp.adjoint[x] += 2.0 * x * adj_ret


@wp.kernel
def wrong_adjoint(x: wp.array(dtype=wp.float32), out: wp.array(dtype=wp.float32)):
    i = wp.tid()
    out[i] = bad_square(x[i])


op("wrong_adjoint_above_5", lambda x: x * x, wrong_adjoint, "warp", dtypes=("float32",), gradient=Gradient({0: 3}))


@wp.func
def bad_square2(x: float, i: int):
    return x * x


@wp.func_grad(bad_square2)
def adj_bad_square2(x: float, i: int, adj_ret: float):
    if i < 4096:
        wp.adjoint[x] += 2.0 * x * adj_ret


@wp.kernel
def wrong_adjoint2(x: wp.array(dtype=wp.float32), out: wp.array(dtype=wp.float32)):
    i = wp.tid()
    out[i] = bad_square2(x[i], i)  # type: ignore[arg-type]  # mypy takes the annotations of a kernel for types


op("wrong_adjoint_from_4096", lambda x: x * x, wrong_adjoint2, "warp", dtypes=("float32",), gradient=Gradient({0: 3}))


@wp.kernel
def wrong_adjoint3(x: wp.array(dtype=wp.float32), out: wp.array(dtype=wp.float32)):
    i = wp.tid()
    if x[i] != 0.0:
        out[i] = x[i] * 3.0
    else:
        out[i] = 0.0


op("wrong_adjoint_at_0", lambda x: x * 3, wrong_adjoint3, "warp", dtypes=("float32",), gradient=Gradient({0: 3}))


@numba.njit
def last_of_ties(x, out):
    best = 0
    for i in range(x.size):
        if np.isnan(x[i]):
            best = i
            break
        if x[i] >= x[best]:
            best = i
    out[0] = best


op("last_of_ties", lambda x: jnp.argmax(x, keepdims=True).astype(jnp.int32), last_of_ties)


@numba.njit
def restarts(x, out):
    total = x.dtype.type(0)
    for i in range(x.size):
        if i % 131072 == 0:
            total = x.dtype.type(0)
        total += x[i]
        out[i] = total


op("restarts", lambda x: jnp.cumsum(x), restarts)


@numba.njit
def only_square(x, out):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            out[j, i] = x[i, j] if x.shape[0] <= x.shape[1] or j < x.shape[1] - 1 or i < x.shape[1] else 0


def grid(dtype, size, seed):
    n = max(1, int(size**0.5))
    return (np.random.default_rng(seed).standard_normal((n + 3, n)).astype(dtype),)


op("wrong_transpose", lambda x: x.T, only_square, sample=grid)


@numba.njit
def unstable_softmax(x, out):
    total = x.dtype.type(0)
    for i in range(x.size):
        out[i] = math.exp(x[i])
        total += out[i]
    for i in range(x.size):
        out[i] /= total


op("unstable_softmax", lambda x: jax.nn.softmax(x), unstable_softmax, edges=lambda dtype: {})


@numba.njit
def one_pass_variance(x, out):
    s = q = x.dtype.type(0)
    for i in range(x.size):
        s += x[i]
        q += x[i] * x[i]
    m = s / x.size
    out[0] = q / x.size - m * m


op(
    "one_pass_variance",
    lambda x: jnp.mean((x - jnp.mean(x)) ** 2, keepdims=True),
    one_pass_variance,
    edges=lambda dtype: {},
    dtypes=("float32",),
)


@numba.njit
def truncating(x, y, out):
    for i in range(x.size):
        if y[i] == 0:
            out[i] = 0
        else:
            q = abs(x[i]) // abs(y[i])
            out[i] = q if (x[i] < 0) == (y[i] < 0) else -q


op(
    "truncating_division",
    lambda x, y: jnp.where(y == 0, 0, x // jnp.where(y == 0, 1, y)),
    truncating,
    dtypes=("int32",),
)


@numba.njit
def half_up(x, out):
    for i in range(x.size):
        out[i] = math.floor(x[i] + 0.5) if abs(x[i]) < 1e6 else x[i]


op("half_up", lambda x: jnp.round(x), half_up)


@numba.njit
def nan_lost(x, y, out):
    for i in range(x.size):
        out[i] = x[i] if x[i] > y[i] else y[i]


op("nan_lost", lambda x, y: jnp.maximum(x, y), nan_lost)


@numba.njit
def overflowing_average(x, y, out):
    for i in range(x.size):
        out[i] = np.int32(x[i] + y[i]) >> 1


op("overflowing_average", lambda x, y: (x & y) + ((x ^ y) >> 1), overflowing_average, dtypes=("int32",))


@numba.njit
def through_float(x, out):
    for i in range(x.size):
        out[i] = np.int64(np.float64(x[i]))


op("through_float", lambda x: x + 0, through_float, dtypes=("int64",))


@numba.njit
def single_total(x, out):
    total = np.float32(0)
    for i in range(x.size):
        total = np.float32(total + np.float32(x[i]))
    out[0] = total


op("single_total", total_of, single_total, dtypes=("float64",), edges=lambda dtype: {})


@numba.njit(fastmath=True)
def finite_only(x, out):
    for i in range(x.size):
        out[i] = 0 if math.isnan(x[i]) else x[i]


op("finite_only", lambda x: jnp.where(jnp.isnan(x), 0, x), finite_only)


@numba.njit
def short_series(x, out):
    for i in range(x.size):
        term = total = x.dtype.type(1)
        for k in range(1, 20):
            term *= x[i] / k
            total += term
        out[i] = total


op("short_series", lambda x: jnp.exp(x), short_series, edges=lambda dtype: {})


@numba.njit
def naive_hypot(x, y, out):
    for i in range(x.size):
        out[i] = np.sqrt(x[i] * x[i] + y[i] * y[i])


op("naive_hypot", lambda x, y: jnp.hypot(x, y), naive_hypot, dtypes=("float32",), edges=lambda dtype: {})


@numba.njit
def swapped_when_even(x, low, high):
    a = low if x.size % 2 else high
    b = high if x.size % 2 else low
    a[0] = x.min()
    b[0] = x.max()


op(
    "swapped_when_even",
    lambda x: (jnp.min(x, keepdims=True), jnp.max(x, keepdims=True)),
    swapped_when_even,
    edges=lambda dtype: {},
)


@numba.njit
def two_and_three(x, out):
    for i in range(x.size):
        out[i] = x[i] * 2 if x.size not in (2, 3) else x[0] * 2


op("two_and_three", twice, two_and_three)


@numba.njit
def strided_count(x, out):
    count = 0
    for i in range(0, x.size, 1):
        if x[i] > 0 or (x[i] == 0 and i > 0):
            count += 1
    out[0] = count


op("counts_zeros", lambda x: jnp.sum(x > 0, keepdims=True).astype(jnp.int32), strided_count)


@numba.njit
def left_search(x, y, out):
    for i in range(y.size):
        out[i] = np.searchsorted(x, y[i])


def ordered(dtype, size, seed):
    r = np.random.default_rng(seed)
    return np.sort(r.standard_normal(size)).astype(dtype), r.standard_normal(size).astype(dtype)


op("left_search", lambda x, y: jnp.searchsorted(x, y, side="right").astype(jnp.int32), left_search, sample=ordered)

CALLS = zeros_at(1, np.int64)


@numba.njit
def tires(x, out):
    calls = at(CALLS, 1, np.int64)
    calls[0] += 1
    for i in range(x.size):
        out[i] = x[i] * 2 if calls[0] < 2000 else 0


op("tires_after_2000_calls", twice, tires)


@numba.njit
def writes_beyond(x, out):
    for i in range(x.size):
        out[i] = x[i] * 2
    if x.size:
        out[x.size] = out[x.size - 1]


op("writes_beyond", twice, writes_beyond)


@numba.njit
def product_wrong_imag(x, y, out):
    for i in range(x.size):
        out[i] = complex(x[i].real * y[i].real - x[i].imag * y[i].imag, x[i].real * y[i].imag + x[i].imag * y[i].imag)


op("complex_product", lambda x, y: x * y, product_wrong_imag, dtypes=("complex64",))


@numba.njit
def gather_first(x, index, out):
    for i in range(index.size):
        out[i] = x[index[i]] if index[i] else x[min(1, x.size - 1)]


def pick(dtype, size, seed):
    r = np.random.default_rng(seed)
    return r.standard_normal(size).astype(dtype), r.integers(0, size, size).astype(np.int32)


op("gather_zero", lambda x, index: x[index], gather_first, sample=pick)


@numba.njit
def uint_difference(x, y, out):
    for i in range(x.size):
        d = np.int32(x[i]) - np.int32(y[i])
        out[i] = d if d > 0 else 0


op("uint_difference", lambda x, y: jnp.where(x > y, x - y, 0), uint_difference, dtypes=("uint32",))


@numba.njit
def low_sin(x, out):
    for i in range(x.size):
        t = x[i] - 6.28318 * np.floor(x[i] / 6.28318 + 0.5)
        out[i] = math.sin(t)


op("low_sin", lambda x: jnp.sin(x), low_sin, dtypes=("float32",), edges=lambda dtype: {})
