"""Holds right kernels with broken rules, and kernels that update their inputs in place wrongly."""

import jax
import jax.numpy as jnp
import numba
import numpy as np

from bridge import XLACustomKernel, numba_kernel
from suites.backends.backend import Backend
from suites.backends.custom_kernel import CustomKernel
from suites.backends.numba_cpu import NumbaKernel
from suites.declare.gradient import Gradient
from suites.mutants.memory import address_of_zeros, array_at
from suites.mutants.mutant import mutant
from suites.ops.add import OPERATOR as ADD
from suites.ops.cumsum import OPERATOR as CUMSUM
from suites.ops.hadamard import OPERATOR as HADAMARD
from suites.ops.matvec import OPERATOR as MATVEC
from suites.ops.scale_add import OPERATOR as SCALE_ADD


def _custom(of):
    """An operator with the good Numba kernel of an operator, and no rules yet."""
    custom = XLACustomKernel(of.name)
    dispatcher = of.kernels[Backend.NUMBA].dispatcher
    custom.def_numba_kernel(lambda outs: numba_kernel(dispatcher, list(outs)))
    return custom


def _mutant(of, name, custom, fault):
    kernel = CustomKernel(custom, "numba")
    return mutant(of, name, Backend.NUMBA, kernel, fault, dtypes=("float32",), gradient=Gradient())


# Faults of derivatives.


def _hadamard(backward):
    custom = _custom(HADAMARD)
    custom.def_vjp(lambda A, B, outs: (custom(A, B, outs=list(outs)), (A, B)), backward)
    return custom


def _thrice(saved, cotangents, outs):
    (A, B), (g,) = saved, cotangents
    return 3 * g * B, 3 * g * A


def _wrong_sign(saved, cotangents, outs):
    (A, B), (g,) = saved, cotangents
    return g * B, -g * A


def _first_alone(saved, cotangents, outs):
    (_, B), (g,) = saved, cotangents
    return g * B, jnp.zeros_like(B)


def _stopped(saved, cotangents, outs):
    (A, B), (g,) = saved, cotangents
    return g * jax.lax.stop_gradient(B), g * jax.lax.stop_gradient(A)


def _in_half_precision(saved, cotangents, outs):
    (A, B), (g,) = saved, cotangents
    return g * B, (g.astype(jnp.float16) * A.astype(jnp.float16)).astype(A.dtype)


def _lost_row():
    custom = _custom(MATVEC)

    def backward(saved, cotangents, outs):
        (A, x), (g,) = saved, cotangents
        return jnp.outer(g, x), A[:-1].T @ g[:-1]

    custom.def_vjp(lambda A, x, outs: (custom(A, x, outs=list(outs)), (A, x)), backward)
    return custom


def _lost_product():
    custom = _custom(HADAMARD)

    def rule(primals, tangents, outs):
        (A, B), (a, _) = primals, tangents
        return custom(A, B, outs=list(outs)), [a * B]

    custom.def_jvp(rule)
    return custom


def _affine():
    """``a * b + c`` is linear in ``a`` only if ``c`` is zero. The transpose is right."""
    custom = _custom(SCALE_ADD)
    custom.def_transpose(0, lambda cotangents, b, c, outs: cotangents[0] * b)
    return custom


def _transposed_twice():
    custom = _custom(MATVEC)
    custom.def_transpose(1, lambda cotangents, A, outs: 2 * (A.T @ cotangents[0]))
    return custom


# Faults of other rules.


def _reversed_batch():
    custom = _custom(ADD)

    def rule(extent, is_batched, x, y, outs):
        both = [
            each if batched else jnp.stack([each] * extent) for each, batched in zip((x, y), is_batched, strict=True)
        ]
        flat = [jax.ShapeDtypeStruct((extent * out.size,), out.dtype) for out in outs]
        (total,) = custom(*[each.reshape(-1) for each in both], outs=flat)
        return [total.reshape(extent, *outs[0].shape)[::-1]]

    custom.def_batching(rule)
    return custom


def _shared_as_batched():
    """It takes one row for each element of the batch, also where the elements share all rows."""
    custom = _custom(ADD)

    def rule(extent, is_batched, x, y, outs):
        y = jnp.broadcast_to(y[:1], (extent, *outs[0].shape)) if not is_batched[1] else y
        x = x if is_batched[0] else jnp.broadcast_to(x, (extent, *outs[0].shape))
        return [x + y]

    custom.def_batching(rule)
    return custom


def _split_chain():
    custom = _custom(CUMSUM)
    custom.def_partitioning("i -> i", split="i")
    return custom


def _split_one():
    """A device gets its part of the first input and all of the second one, and adds up their beginnings."""
    custom = _custom(ADD)
    custom.def_partitioning("i, j -> i", split="i")
    return custom


# Faults of updates in place.

LAST = address_of_zeros(1, np.uint64)


@numba.njit
def done_before(x, y, out):
    """Takes the memory of the last call for finished."""
    last = array_at(LAST, 1, np.uint64)
    if last[0] != out.ctypes.data or out.size != 33:
        for i in range(out.size):
            out[i] = x[i] + y[i]
    last[0] = out.ctypes.data


@numba.njit
def overwritten_neighbour(x, y, out):
    """Reads elements that it has overwritten: the result has the memory of the first input."""
    for i in range(out.size):
        out[i] = x[i] + y[i]
        if i and x[i - 1] > 3:
            out[i] = x[i - 1] + y[i]


MUTANTS = [
    _mutant(HADAMARD, "vjp_thrice", _hadamard(_thrice), "the rule of the derivative is three times too large"),
    _mutant(HADAMARD, "vjp_wrong_sign", _hadamard(_wrong_sign), "one cotangent of the rule has the wrong sign"),
    _mutant(HADAMARD, "vjp_first_alone", _hadamard(_first_alone), "the rule gives the second input no derivative"),
    _mutant(HADAMARD, "vjp_in_half", _hadamard(_in_half_precision), "the rule multiplies in half precision"),
    _mutant(HADAMARD, "vjp_stopped", _hadamard(_stopped), "the rule hides its inputs from second derivatives"),
    _mutant(HADAMARD, "jvp_lost_product", _lost_product(), "the rule in forward mode lacks a term"),
    _mutant(MATVEC, "vjp_lost_row", _lost_row(), "the rule leaves the last row out of a sum"),
    _mutant(MATVEC, "transposed_twice", _transposed_twice(), "the rule of the transpose is twice too large"),
    _mutant(SCALE_ADD, "affine", _affine(), "declared linear in an input to which it adds something"),
    _mutant(ADD, "reversed_batch", _reversed_batch(), "the batching rule returns the batch in reverse order"),
    _mutant(ADD, "shared_as_batched", _shared_as_batched(), "the batching rule takes a shared input for a batch"),
    _mutant(CUMSUM, "split_chain", _split_chain(), "declared independent along the axis that it adds up"),
    _mutant(ADD, "split_otherwise", _split_one(), "declared to split one input but not the other"),
    mutant(
        ADD, "update_done_before", Backend.NUMBA, NumbaKernel(done_before, {0: 0}),
        "memory that the last call updated is not updated again",
    ),
    mutant(
        ADD, "overwritten_neighbour", Backend.NUMBA, NumbaKernel(overwritten_neighbour, {0: 0}),
        "reads elements of an input that it has overwritten",
    ),
]  # fmt: skip
