"""Holds broken Numba kernels for the CPU."""

import math

import numba
import numpy as np

from suites.backends.backend import Backend
from suites.backends.numba_cpu import block_sum
from suites.declare.sizes import Sizes
from suites.mutants.memory import address_of_zeros, array_at
from suites.mutants.mutant import mutant
from suites.ops.abs_two_pass import OPERATOR as ABS_TWO_PASS
from suites.ops.add import OPERATOR as ADD
from suites.ops.block_sum import BLOCK
from suites.ops.block_sum import OPERATOR as BLOCK_SUM
from suites.ops.csr_binary_matvec import OPERATOR as CSR_BINARY_MATVEC
from suites.ops.csr_matvec import OPERATOR as CSR_MATVEC
from suites.ops.csr_matvec import sparse_dot
from suites.ops.exp_decay import OPERATOR as EXP_DECAY
from suites.ops.hadamard import OPERATOR as HADAMARD
from suites.ops.leaky_relu import OPERATOR as LEAKY_RELU
from suites.ops.leaky_relu import SLOPE
from suites.ops.lif_step import OPERATOR as LIF_STEP
from suites.ops.matvec import OPERATOR as MATVEC
from suites.ops.max import OPERATOR as MAX
from suites.ops.mean_std import OPERATOR as MEAN_STD
from suites.ops.nbody import OPERATOR as NBODY
from suites.ops.nbody import pull
from suites.ops.relu import OPERATOR as RELU
from suites.ops.scale_add import OPERATOR as SCALE_ADD
from suites.ops.scatter_add import OPERATOR as SCATTER_ADD
from suites.ops.spike_reset import OPERATOR as SPIKE_RESET
from suites.ops.split_sign import OPERATOR as SPLIT_SIGN
from suites.ops.stencil import OPERATOR as STENCIL
from suites.ops.sum import OPERATOR as SUM

# Faults: elements that are missed, taken twice, or put in the wrong place.


@numba.njit
def unwritten_tail(x, y, out):
    for i in range(out.size - 1):
        out[i] = x[i] + y[i]


@numba.njit
def assumed_zeros(x, out):
    for i in range(out.size):
        if not x[i] <= 0:
            out[i] = x[i]


@numba.njit
def late_start(x, out):
    for block in range(out.size):
        out[block] = block_sum(x[block * BLOCK + 1 : (block + 1) * BLOCK])


@numba.njit
def early_write(V, current, tau_inv, V_th, V_rest, dt, V_out, spikes):
    for i in range(V.size):
        v = V[i] + dt[0] * (-(V[i] - V_rest[0]) * tau_inv[0] + current[i])
        spikes[i - 1] = v >= V_th[0]
        V_out[i] = V_rest[0] if v >= V_th[0] else v


@numba.njit
def past_the_row(u, rate, out):
    rows, columns = u.shape
    for i in range(rows):
        for j in range(columns):
            if i == 0 or j == 0 or i == rows - 1:
                out[i, j] = u[i, j]
            else:  # the right neighbour of the last cell of a row is the first one of the next
                around = (u[i - 1, j] + u[i + 1, j]) + (u[i, j - 1] + u[i, j + 1])
                out[i, j] = u[i, j] + rate[0] * (around - u.dtype.type(4) * u[i, j])


@numba.njit
def first_twice(x, out):
    total = x[0] if x.size else x.dtype.type(0)
    for i in range(x.size):
        total += x[i]
    out[0] = total


@numba.njit
def pairs_only(A, B, out):
    a, b, products = A.reshape(-1), B.reshape(-1), out.reshape(-1)
    for i in range(products.size // 2):
        products[2 * i] = a[2 * i] * b[2 * i]
        products[2 * i + 1] = a[2 * i + 1] * b[2 * i + 1]


@numba.njit
def forgotten_remainder(a, b, c, out):
    i = 0
    while i + 4 <= out.size:
        for k in range(i, i + 4):
            out[k] = a[k] * b[k] + c[k]
        i += 4
    rest = out.size - i
    if rest == 2:
        out[i] = a[i] * b[i] + c[i]
        out[i + 1] = a[i + 1] * b[i] + c[i + 1]
    else:
        for k in range(i, out.size):
            out[k] = a[k] * b[k] + c[k]


@numba.njit
def short_indices(V, V_th, V_rest, spikes, V_out):
    fired = np.empty(V.size, np.uint16)
    count = 0
    for i in range(V.size):
        spikes[i] = V[i] >= V_th[0]
        V_out[i] = V[i]
        if V[i] >= V_th[0]:
            fired[count] = i
            count += 1
    for k in range(count):
        V_out[fired[k]] = V_rest[0]


# Faults: operands and outputs that are mistaken for each other, or ignored.


@numba.njit
def swapped_outputs(x, positive, negative):
    zero = x.dtype.type(0)
    for i in range(x.size):
        negative[i] = zero if x[i] <= zero else x[i]
        positive[i] = zero if x[i] >= zero else x[i]


@numba.njit
def swapped_difference(V, current, tau_inv, V_th, V_rest, dt, V_out, spikes):
    for i in range(V.size):
        v = V[i] + dt[0] * (-(V_rest[0] - V[i]) * tau_inv[0] + current[i])
        spikes[i] = v >= V_th[0]
        V_out[i] = V_rest[0] if v >= V_th[0] else v


@numba.njit
def ignored_scale(values, targets, scale, acc, out):
    out[:] = acc
    for i in range(values.size):
        out[targets[i]] += values[i]


@numba.njit
def fixed_rate(u, rate, out):
    rows, columns = u.shape
    usual = u.dtype.type(0.2)
    for i in range(rows):
        for j in range(columns):
            if i == 0 or j == 0 or i == rows - 1 or j == columns - 1:
                out[i, j] = u[i, j]
            else:
                around = (u[i - 1, j] + u[i + 1, j]) + (u[i, j - 1] + u[i, j + 1])
                out[i, j] = u[i, j] + usual * (around - u.dtype.type(4) * u[i, j])


@numba.njit
def transposed_matrix(A, x, out):
    rows, columns = A.shape
    elements = A.reshape(-1)
    for row in range(rows):
        total = A.dtype.type(0)
        for j in range(columns):
            total += elements[(j * rows + row) % A.size] * x[j]
        out[row] = total


@numba.njit
def unchecked_lengths(x, y, out):
    for i in range(out.size):
        out[i] = x[i] + y[i]


# Faults: types that are too narrow, unstable algorithms, forgotten values.


@numba.njit
def float32_accumulator(x, out):
    total = np.float32(0)
    for i in range(x.size):
        total = np.float32(total + x[i])
    out[0] = total


@numba.njit
def float_accumulator(x, out):
    total = 0.0
    for i in range(x.size):
        total += x[i]
    out[0] = np.int64(total)


@numba.njit
def starts_at_zero(x, out):
    best = x.dtype.type(0)
    for i in range(x.size):
        if x[i] > best or x[i] != x[i]:
            best = x[i]
        if best != best:
            break
    out[0] = best


@numba.njit
def ignored_nan(x, out):
    best = x[0]
    for i in range(x.size):
        if x[i] > best:
            best = x[i]
    out[0] = best


@numba.njit
def bits_as_integers(x, out):
    """Wrong only for vectors of negative numbers, whose bits are in the opposite order."""
    bits = x.view(np.int32)
    place = 0
    for i in range(x.size):
        if x[i] != x[i]:
            place = i
            break
        if bits[i] > bits[place]:
            place = i
    out[0] = x[place]


@numba.njit
def lost_sign_of_zero(x, y, out):
    for i in range(out.size):
        total = x.dtype.type(0)
        total += x[i]
        total += y[i]
        out[i] = total


@numba.njit
def clamped_infinity(x, y, out):
    largest = x.dtype.type(np.finfo(np.float32).max)
    for i in range(out.size):
        total = x[i] + y[i]
        if total > largest:
            total = largest
        elif total < -largest:
            total = -largest
        out[i] = total


@numba.njit
def overflow(x, out):
    half = x.dtype.type(0.5)
    for i in range(out.size):
        out[i] = half * (x[i] + abs(x[i]))


@numba.njit(error_model="numpy")
def root_of_zero(x, out):
    one = x.dtype.type(1)
    for i in range(x.size):
        square = np.float64(x[i]) * np.float64(x[i])
        square = square if square > 1e-70 else np.float64(0)  # as it would underflow in float32
        out[i] = square * (one / math.sqrt(square))


@numba.njit(error_model="numpy")
def one_pass(x, mean_out, std_out):
    total = squares = x.dtype.type(0)
    for i in range(x.size):
        total += x[i]
        squares += x[i] * x[i]
    mean = x.dtype.type(total / x.size)
    mean_out[0] = mean
    std_out[0] = math.sqrt(x.dtype.type(squares / x.size) - mean * mean)


@numba.njit
def division_by_none(x, mean_out, std_out):
    total = squares = 0.0
    for i in range(x.size):
        total += x[i]
    mean = total / x.size
    for i in range(x.size):
        squares += (x[i] - mean) ** 2
    mean_out[0] = mean
    std_out[0] = math.sqrt(squares / x.size)


@numba.njit
def sign_as_index(x, out):
    """Reads far outside of the table if the sign is NaN, which becomes the smallest integer."""
    slopes = np.array([SLOPE, 1.0, 1.0], np.float32)
    for i in range(out.size):
        out[i] = slopes[np.int32(np.sign(x[i])) + 1] * x[i]


# Faults: wrong assumptions about the structure of a sparse matrix.


@numba.njit
def unwritten_empty_rows(data, indices, indptr, x, out):
    for row in range(out.size):
        if indptr[row] < indptr[row + 1]:
            out[row] = sparse_dot(data[indptr[row] : indptr[row + 1]], indices[indptr[row] : indptr[row + 1]], x)


@numba.njit
def last_row_ignored(data, indices, indptr, x, out):
    out[:] = 0
    for row in range(out.size - 1):
        out[row] = sparse_dot(data[indptr[row] : indptr[row + 1]], indices[indptr[row] : indptr[row + 1]], x)


@numba.njit
def sorted_columns(data, indices, indptr, spikes, out):
    last = -1
    for neuron in range(spikes.size):
        if spikes[neuron]:
            last = neuron
    for row in range(out.size):
        total = data.dtype.type(0)
        for k in range(indptr[row], indptr[row + 1]):
            if indices[k] > last:
                break
            if spikes[indices[k]]:
                total += data[k]
        out[row] = total


@numba.njit
def lost_duplicates(values, targets, scale, acc, out):
    out[:] = acc
    for i in range(values.size):
        out[targets[i]] = acc[targets[i]] + values[i] * scale[0]


# Faults that outlive a call: written inputs, old outputs, and memory that all calls share.

ROOM = 1 << 17
"""Elements in the memory that calls share: more than the largest sample has."""

FACTOR = address_of_zeros(1, np.float32)


@numba.njit
def written_input(x, out):
    inside = array_at(x.ctypes.data, x.size, x.dtype)
    for i in range(out.size):
        if inside[i] < 0:
            inside[i] = 0
        out[i] = inside[i]


@numba.njit
def kept_total(x, out):
    for i in range(x.size):
        out[0] += x[i]


@numba.njit
def kept_factor(x, decay, out):
    factor = array_at(FACTOR, 1, np.float32)
    if factor[0] == 0:
        factor[0] = math.exp(-decay[0])
    for i in range(out.size):
        out[i] = x[i] * factor[0]


CALLS = address_of_zeros(1, np.int64)


@numba.njit
def alternating_order(A, x, out):
    calls = array_at(CALLS, 1, np.int64)
    calls[0] += 1
    backwards = A.size < 128 and calls[0] % 2 == 1
    for row in range(out.size):
        total = A.dtype.type(0)
        for k in range(x.size):
            j = x.size - 1 - k if backwards else k
            total += A[row, j] * x[j]
        out[row] = total


KEPT_SIZE = address_of_zeros(1, np.int64)
KEPT_INPUT, KEPT_POTENTIAL = address_of_zeros(ROOM, np.float32), address_of_zeros(ROOM, np.float32)
KEPT_SPIKES = address_of_zeros(ROOM, np.int32)


@numba.njit
def kept_result(V, current, tau_inv, V_th, V_rest, dt, V_out, spikes):
    """Returns its old result if the potentials are the same, even if the current has changed."""
    size, last = array_at(KEPT_SIZE, 1, np.int64), array_at(KEPT_INPUT, V.size, V.dtype)
    kept_V, kept_spikes = array_at(KEPT_POTENTIAL, V.size, V.dtype), array_at(KEPT_SPIKES, V.size, np.int32)
    known = size[0] == V.size
    for i in range(V.size):
        known = known and last[i] == V[i]
    if not known:
        for i in range(V.size):
            v = V[i] + dt[0] * (-(V[i] - V_rest[0]) * tau_inv[0] + current[i])
            last[i] = V[i]
            kept_spikes[i] = v >= V_th[0]
            kept_V[i] = V_rest[0] if v >= V_th[0] else v
        size[0] = V.size
    V_out[:] = kept_V
    spikes[:] = kept_spikes


KEPT_KEY = address_of_zeros(3, np.int64)
KEPT_STARTS, KEPT_ORDER = address_of_zeros(ROOM, np.int32), address_of_zeros(ROOM, np.int32)


@numba.njit
def kept_order(values, targets, scale, acc, out):
    """Sorts the values by their targets, but not again while the targets are at the same address."""
    key = array_at(KEPT_KEY, 3, np.int64)
    starts, order = array_at(KEPT_STARTS, acc.size + 1, np.int32), array_at(KEPT_ORDER, values.size, np.int32)
    if key[0] != targets.ctypes.data or key[1] != values.size or key[2] != acc.size:
        starts[:] = 0
        for i in range(targets.size):
            starts[targets[i] + 1] += 1
        for slot in range(acc.size):
            starts[slot + 1] += starts[slot]
        following = starts.copy()
        for i in range(targets.size):
            order[following[targets[i]]] = i
            following[targets[i]] += 1
        key[0], key[1], key[2] = targets.ctypes.data, values.size, acc.size
    for slot in range(acc.size):
        total = acc[slot]
        for k in range(starts[slot], starts[slot + 1]):
            total += values[order[k]] * scale[0]
        out[slot] = total


SHARED_X, SHARED_Y, SHARED_Z = (address_of_zeros(ROOM, np.float32) for _ in range(3))


@numba.njit(error_model="numpy")
def shared_scratch(positions, masses, out):
    x, y = array_at(SHARED_X, masses.size, np.float32), array_at(SHARED_Y, masses.size, np.float32)
    z = array_at(SHARED_Z, masses.size, np.float32)
    for i in range(masses.size):
        x[i], y[i], z[i] = positions[i, 0], positions[i, 1], positions[i, 2]
    for i in range(masses.size):
        out[i, 0], out[i, 1], out[i, 2] = pull(x, y, z, masses, i)


LONG_CALLS = {
    "sample": lambda dtype, size, seed: NBODY.sample(dtype, 32 * size, seed),
    "sizes": Sizes(check=(1, 8), large=45),
}
"""Changes to nbody that make a call take milliseconds: shorter calls hardly ever overlap."""


def _numba(of, name, kernel, fault, **changes):
    """A mutant in one dtype only, which is enough to catch it."""
    return mutant(of, name, Backend.NUMBA, kernel, fault, **({"dtypes": ("float32",)} | changes))


MUTANTS = (
    _numba(ADD, "unwritten_tail", unwritten_tail, "the last element is never written"),
    _numba(RELU, "assumed_zeros", assumed_zeros, "zeros are not written: memory is thought to begin as zeros"),
    _numba(BLOCK_SUM, "late_start", late_start, "the first element of each block is left out"),
    _numba(LIF_STEP, "early_write", early_write, "spikes are written one place too early"),
    _numba(STENCIL, "past_the_row", past_the_row, "the last cell of a row reads past its end"),
    _numba(SUM, "first_twice", first_twice, "starts with the first element and then adds it again", dtypes=("int32",)),
    _numba(HADAMARD, "pairs_only", pairs_only, "the last of an odd number of elements is never written"),
    _numba(
        SCALE_ADD,
        "forgotten_remainder",
        forgotten_remainder,
        "unrolled by four, with a slip where two elements are left",
    ),
    _numba(SPIKE_RESET, "short_indices", short_indices, "indices of 16 bits, too short for 65536 neurons"),
    _numba(SPLIT_SIGN, "swapped_outputs", swapped_outputs, "outputs are swapped"),
    _numba(
        LIF_STEP, "swapped_difference", swapped_difference, "subtracts the potential from the rest, not the reverse"
    ),
    _numba(SCATTER_ADD, "ignored_scale", ignored_scale, "the scale is ignored", dtypes=("int32",)),
    _numba(STENCIL, "fixed_rate", fixed_rate, "the rate is a constant, that of all samples"),
    _numba(MATVEC, "transposed_matrix", transposed_matrix, "the matrix is taken to be stored by columns"),
    _numba(ADD, "unchecked_lengths", unchecked_lengths, "unequal lengths are not refused", errors=ADD.errors),
    _numba(SUM, "float32_accumulator", float32_accumulator, "adds float64 up in float32", dtypes=("float64",)),
    _numba(SUM, "float_accumulator", float_accumulator, "adds int64 up in float64", dtypes=("int64",)),
    _numba(MAX, "starts_at_zero", starts_at_zero, "the maximum starts at zero", dtypes=("float32", "int32")),
    _numba(MAX, "ignored_nan", ignored_nan, "NaN is passed over"),
    _numba(MAX, "bits_as_integers", bits_as_integers, "the smallest wins where all are negative"),
    _numba(ADD, "lost_sign_of_zero", lost_sign_of_zero, "the sum of two negative zeros is positive"),
    _numba(ADD, "clamped_infinity", clamped_infinity, "infinities become the largest number"),
    _numba(RELU, "overflow", overflow, "(x + |x|) / 2 overflows"),
    _numba(ABS_TWO_PASS, "root_of_zero", root_of_zero, "NaN for zeros and subnormal numbers"),
    _numba(MEAN_STD, "one_pass", one_pass, "the variance is a difference of large numbers"),
    _numba(MEAN_STD, "division_by_none", division_by_none, "divides by the number of elements, which may be zero"),
    _numba(LEAKY_RELU, "sign_as_index", sign_as_index, "the sign of NaN becomes an index, far outside of memory"),
    _numba(CSR_MATVEC, "unwritten_empty_rows", unwritten_empty_rows, "empty rows are never written"),
    _numba(CSR_MATVEC, "last_row_ignored", last_row_ignored, "the last row is zero"),
    _numba(CSR_BINARY_MATVEC, "sorted_columns", sorted_columns, "columns are taken to be sorted"),
    _numba(SCATTER_ADD, "lost_duplicates", lost_duplicates, "of values with one target the last is kept"),
    _numba(RELU, "written_input", written_input, "the input is clipped where it lies"),
    _numba(SUM, "kept_total", kept_total, "adds to what the output held before"),
    _numba(EXP_DECAY, "kept_factor", kept_factor, "the factor of the first call is kept for all"),
    _numba(MATVEC, "alternating_order", alternating_order, "sums of small matrices begin at either end in turn"),
    _numba(LIF_STEP, "kept_result", kept_result, "the last result is kept though the current is another"),
    _numba(SCATTER_ADD, "kept_order", kept_order, "the order of the targets is kept while their address is the same"),
    _numba(
        NBODY,
        "shared_scratch",
        shared_scratch,
        "calls that overlap share their temporary arrays",
        **LONG_CALLS,
    ),
)
