"""Mistakes in an operator are refused. The error names operator and field, says what was expected, and what to do."""

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest
import warp as wp

from suites import ErrorCase, Failure, Gradient, Operator, OperatorError, Sizes, exact
from suites.backends import BACKENDS
from suites.declare.contradictions import verify
from suites.unit.bridge.kernels import copy


@wp.kernel
def warp_kernel(x: wp.array(dtype=wp.float32), out: wp.array(dtype=wp.float32)):
    i = wp.tid()
    out[i] = x[i]


def plain(x, out):
    out[:] = x


def _operator(**changes):
    return Operator(**{"name": "copy", "reference": lambda x: x + 0, "kernels": {"numba": copy}, **changes})


MISTAKES = {
    "no_kernels": (
        lambda: _operator(kernels={}),
        "copy: kernels is empty, expected at least one, such as {'numba': kernel}.",
    ),
    "unknown_backend": (
        lambda: _operator(kernels={"nubma": copy}),
        "copy: kernels: there is no backend 'nubma'. Did you mean 'numba'\\? Known are jnp, numba, numba_parallel,",
    ),
    "jnp_as_kernel": (
        lambda: _operator(kernels={"jnp": jnp.sin}),
        "kernels has 'jnp', which is the reference. Pass it as reference=",
    ),
    "plain_function": (
        lambda: _operator(kernels={"numba": plain}),
        r"copy: kernels\['numba'\] is the plain Python function plain, expected a function decorated with "
        r"numba.njit, or a suites.NumbaKernel of one\. Decorate it with numba.njit\. .* suites.JaxKernel",
    ),
    "warp_under_numba": (
        lambda: _operator(kernels={"numba": warp_kernel}),
        r"kernels\['numba'\] is warp_kernel \(warp's Kernel\), expected .* Declare it as 'warp'.",
    ),
    "unknown_dtype": (
        lambda: _operator(dtypes=("flaot32",)),
        "copy: dtypes: there is no dtype 'flaot32' here. Did you mean 'float32'?",
    ),
    "no_reference": (
        lambda: _operator(reference=None),
        "copy: reference is None, expected a function of JAX's arrays.",
    ),
    "any_number_of_inputs": (
        lambda: _operator(reference=lambda *arrays: arrays[0]),
        r"copy: sample is not given, and the reference takes any number of arrays \(\*arrays\). Pass sample=",
    ),
    "negative_size": (
        lambda: Sizes(check=(1, -3)),
        "Sizes: check: got -3, expected an integer from 1 on. Declare empty",
    ),
    "error_name": (lambda: ErrorCase("a b", tuple, {}), "ErrorCase: name is 'a b', .* Call it 'a_b'."),
    "no_inputs": (lambda: Gradient(inputs=()), r"Gradient: inputs is \(\), expected indices of inputs"),
}


@pytest.mark.parametrize(("make", "message"), MISTAKES.values(), ids=MISTAKES)
def test_what_makes_no_sense_is_refused_when_it_is_made(make, message):
    with pytest.raises(OperatorError, match=message):
        make()


def test_two_error_cases_of_one_name_are_refused():
    case = ErrorCase("same", lambda: np.zeros(2), {"numba": Failure(ValueError, "no")})
    assert [array.shape for array in case.arrays()] == [(2,)]
    assert list(case.failures) == [BACKENDS["numba"]]
    with pytest.raises(OperatorError, match=r"copy: errors has two cases of one name: same, same. Rename one"):
        _operator(errors=[case, case])


RETURNED = {
    "sample_of_none": (
        {"sample": lambda *_: None},
        r"copy: sample\('float32', 1, 0\): input 0 is None, expected an",
    ),
    "sample_of_another_dtype": (
        {"dtypes": ("float16",), "sample": lambda d, n, s: np.ones(n)},
        r"sample\('float16', 1, 0\): the inputs are float32, expected the tested dtype float16 .*dtypes=\('float32',\)",
    ),
    "sample_of_varying_shape": ({"sample": lambda d, n, s: np.ones(n + s, d)}, "has other shapes for another seed"),
    "outputs_unlike_reference": (
        {"outputs": lambda x: [x, x]},
        r"copy: outputs declares float32\[1\], float32\[1\], but the reference returns float32\[1\]. Change one",
    ),
    "unknown_name": (
        {"reference": lambda x: x + nothing},  # type: ignore[name-defined]  # noqa: F821
        "reference raised NameError: name 'nothing' is not defined$",
    ),
    "too_few_shapes": (
        {"reference": lambda x, y: x, "shapes": ("m n",)},
        r"missing 1 required positional argument: 'y'. The argument shapes=\('m n',\) makes an input for each text",
    ),
    "truth_of_an_array": (
        {"truth": lambda x: x},
        "copy: truth returned an array of float32, expected suites.exact.*Leave it",
    ),
}


@pytest.mark.parametrize(("changes", "message"), RETURNED.values(), ids=RETURNED)
def test_function_that_returns_what_makes_no_sense_is_told_apart(changes, message):
    operator = _operator(**changes)
    with pytest.raises(OperatorError, match=message):
        verify(operator)


@pytest.mark.parametrize("dtype", ["complex64", "complex128", "bfloat16", "float16"])
def test_every_dtype_of_an_operator_has_a_sample_and_a_derived_truth(dtype):
    operator = _operator(dtypes=dtype)
    assert operator.sample(dtype, 3, 0)[0].dtype == np.dtype(dtype)
    verify(operator)
    verify(_operator(dtypes=dtype, truth=exact))


DECLARED = numba.njit(["void(int32[:], int32[:])", "void(float32[:], float32[:])"])(plain)


@pytest.mark.parametrize(
    ("backend", "kernel", "declared"),
    [("warp", warp_kernel, ["float32"]), ("numba", DECLARED, ["float32", "int32"])],
)
def test_a_kernel_that_is_declared_for_some_of_the_dtypes_has_no_cells_in_the_others(backend, kernel, declared):
    operator = _operator(kernels={backend: kernel}, dtypes=("float32", "float64", "int32"))
    reason = f"the {backend} kernel is declared for {', '.join(declared)} alone"
    for dtype in operator.dtypes:
        found = operator.unsupported(BACKENDS[backend], "cpu", dtype)
        assert found == (None if dtype in declared else reason)


def test_what_was_compiled_for_equal_operators_is_shared():
    first, second = (_operator(kernels={"warp": warp_kernel}) for _ in range(2))
    inputs = [jax.ShapeDtypeStruct((8,), np.float32)]
    assert first.build(BACKENDS["warp"], inputs) is second.build(BACKENDS["warp"], inputs)
