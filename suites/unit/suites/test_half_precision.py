"""float16 and bfloat16: declared once, computed in float32, and held to that."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from reports import Status
from suites import JaxKernel, Operator, in_float32, kind_of
from suites.backends import BACKENDS
from suites.cells.selection import Selection
from suites.cells.tables import SAMPLES, samples
from suites.checks.drawn.drawn_inputs import battery
from suites.checks.judging.cell_verdict import judge_kernel
from suites.kernels.half_precision import HALVES, wide
from suites.numerics.verdict import judge
from suites.ops import operators

SENSELESS = {"nbody", "matmul_tf32"}
"""Operators on floats that make no sense in 16 bits."""


def test_an_operator_on_floats_has_both_halves_and_a_row_says_what_it_lacks():
    of_floats = {name: each for name, each in operators().items() if "float32" in each.dtypes}
    assert {name for name, each in of_floats.items() if not set(HALVES) <= set(each.dtypes)} == SENSELESS
    csr = of_floats["csr_matvec"]
    assert csr.unsupported(BACKENDS["warp"], "cpu", "bfloat16") == csr.lacks["warp"]["bfloat16"]
    assert csr.unsupported(BACKENDS["warp"], "cpu", "float32") is None


def test_a_reference_in_float32_rounds_once_and_leaves_other_dtypes_alone():
    thirds = in_float32(lambda x: [x / 3 * 3, jnp.argmax(x)])
    x = np.arange(1, 300, dtype="bfloat16")
    result, place = thirds(x)
    assert result.dtype == x.dtype
    assert place.dtype == jnp.int32
    assert (np.asarray(result) == x).all()
    assert (np.asarray(x / np.asarray(3, x.dtype) * np.asarray(3, x.dtype)) != x).any()
    assert in_float32(lambda x: x)(np.ones(3, np.int32)).dtype == np.int32


def _sum(x, dtype):
    total = dtype.type(0)
    for each in x.astype(dtype):
        total = dtype.type(total + each)
    return np.array([total]).astype(x.dtype)


SUMS = {
    "sum": lambda dtype, x: _sum(x, dtype),
    "cumsum": lambda dtype, x: np.concatenate([_sum(x[:end], dtype) for end in range(1, x.size + 1)]),
    "matvec": lambda dtype, A, x: np.concatenate([_sum(row.astype(dtype) * x.astype(dtype), dtype) for row in A]),
}
SUMS["matmul"] = lambda dtype, A, B: np.stack([SUMS["matvec"](dtype, A, column).astype(A.dtype) for column in B.T], 1)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", SUMS)
def test_a_kernel_that_adds_up_in_16_bits_is_outside_of_the_bound(name, dtype):
    operator, found = operators()[name], {"float32": set(), dtype: set()}
    for seed in range(4):  # a sum of one result may be right by chance
        inputs = operator.sample(dtype, 1031 if name in ("sum", "cumsum") else 2**12, seed)
        truth = operator.truth(*inputs)
        for each, verdicts in found.items():
            result = SUMS[name](np.dtype(each), *inputs).astype(dtype)
            verdicts.add(judge([result], truth).status.name)
    assert found["float32"] == {"PASSED"}
    assert "WRONG_VALUE" in found[dtype]


@pytest.mark.parametrize("dtype", HALVES)
def test_the_same_patterns_and_derivatives_are_checked_as_of_float32(dtype):
    assert kind_of(dtype) == "f"
    scale = Operator(name="scale", reference=lambda x: 0.3 * x, kernels={"pallas": jnp.abs}, dtypes=("float32", dtype))
    names = [[name for name, _ in battery(scale, each, 33, (0,))] for each in scale.dtypes]
    assert names[0] == names[1]
    drawn = {name: inputs[0].astype(np.float64) for name, inputs in battery(scale, dtype, 33, (0,))}
    tiny = float(jnp.finfo(dtype).tiny)
    assert ((drawn["subnormal"] != 0) & (np.abs(drawn["subnormal"]) < tiny)).any()
    assert np.isnan(drawn["special"]).any()
    softmax, rotary = operators()["softmax"], operators()["rotary"]
    assert softmax.has_gradient(BACKENDS["warp"], dtype)
    assert softmax.differentiated(softmax.sample(dtype, 33, 0)) == [0]
    assert not rotary.has_gradient(BACKENDS["warp"], dtype)  # Warp's adjoint adds up in 16 bits


def test_the_quick_profile_has_bfloat16_and_the_full_one_float16_too():
    quick = {(case.kernel, case.dtype) for case in (each.values[0] for each in SAMPLES.quick(samples(Selection())))}
    every = {(case.kernel, case.dtype) for case in (each.values[0] for each in samples(Selection()))}
    kernels = {kernel for kernel, dtype in every if dtype == "bfloat16"} & {kernel for kernel, _ in quick}
    assert {(kernel, "bfloat16") for kernel in kernels} <= quick
    assert not any(dtype == "float16" for _, dtype in quick)


@pytest.mark.parametrize("name", ["matmul", "matvec", "attention"])
@pytest.mark.parametrize("dtype", ["float32", *HALVES])
def test_a_product_of_a_reference_is_added_up_in_float32_and_never_tf32(name, dtype):
    operator = operators()[name]
    inputs = operator.sample(dtype, 1024, 0)
    products = [each for each in jax.make_jaxpr(operator.reference)(*inputs).jaxpr.eqns if "dot" in each.primitive.name]
    inner = str(jax.make_jaxpr(operator.reference)(*inputs))
    assert inner.count("dot_general[") >= 1
    assert inner.count(f"preferred_element_type={wide(dtype)}") == inner.count("dot_general[")
    assert inner.count("Precision.HIGHEST") >= inner.count("dot_general[") >= len(products)


def judged(name, dtype, product, inputs=None):
    operator = dataclasses.replace(operators()[name], kernels={"numba": JaxKernel(product, calls=0)})
    return judge_kernel(operator, BACKENDS["numba"], inputs or operator.sample(dtype, 4096, 0)).status


@pytest.mark.parametrize(
    ("name", "bits", "status"),
    [("matmul_tf32", 10, Status.PASSED), ("matmul_tf32", 7, Status.WRONG_VALUE), ("matmul", 10, Status.WRONG_VALUE)],
)
def test_a_product_may_lose_bits_where_its_name_says_tf32_and_no_more(name, bits, status):
    def product(A, B):
        return jnp.matmul(*(jax.lax.reduce_precision(each, 8, bits) for each in (A, B)), precision="highest")

    whole = operators()["matmul_tf32"].edges(np.dtype("float32"))["eleven_bits"]
    worst = {judged(name, "float32", product), judged(name, "float32", product, whole)} - {Status.PASSED}
    assert worst == {status} - {Status.PASSED}


@pytest.mark.parametrize(("wide", "status"), [("float32", Status.PASSED), ("bfloat16", Status.WRONG_VALUE)])
def test_a_product_of_8_bits_is_added_up_in_float32(wide, status):
    def product(A, B):
        terms = A.astype("float32")[:, :, None] * B.astype("float32")
        return functools.reduce(jnp.add, terms.astype(wide).swapaxes(0, 1)).astype("float32")

    assert judged("matmul", "float8_e4m3fn", product) is status


@pytest.mark.parametrize(
    ("name", "dtype", "least"), [("matmul_tf32", "float32", 2**-9), ("matmul", "float8_e4m3fn", 2**-8)]
)
def test_large_products_of_few_bits_have_a_derived_bound_too(name, dtype, least):
    """The default tolerance of float32 would refuse every one of them that is a thousand deep."""
    A, B = operators()[name].sample(dtype, 1024**2, 0)
    (expected,) = operators()[name].truth(A, B).outputs
    sizes = np.abs(A.astype(np.float64)) @ np.abs(B.astype(np.float64))
    assert (expected.margin >= 0.99 * least * sizes).all()
