"""Mistakes in an operator are refused. The error names operator and field, says what was expected, and what to do."""

import typing

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest
import warp as wp

from suites import (
    Backend,
    CatalogueError,
    CudaKernel,
    ErrorCase,
    Failure,
    Gradient,
    Limitation,
    Operator,
    OperatorError,
    Sizes,
    WarpKernel,
    bounded,
    exact,
)
from suites.declare.contradictions import verify


@numba.njit
def kernel(x, out):
    for i in range(x.size):
        out[i] = x[i]


@wp.kernel
def warp_kernel(x: wp.array(dtype=wp.float32), out: wp.array(dtype=wp.float32)):
    i = wp.tid()
    out[i] = x[i]


def plain(x, out):
    out[:] = x


def _operator(**changes):
    return Operator(**{"name": "copy", "reference": lambda x: x + 0, "kernels": {"numba": kernel}, **changes})


CUDA_SOURCE = "__global__ void copy(const float* x, float* out, int n) {}"


def _declared():
    return {
        "name_empty": (
            {"name": ""},
            "Operator: name is '', expected a name of letters, digits and _, such as 'my_name'.",
        ),
        "name_of_bytes": ({"name": b"a"}, "Operator: name is b'a', expected a name"),
        "name_with_brackets": ({"name": "my op[1]"}, "expected letters, digits and _ . ~ only, .* Call it 'my_op_1'."),
        "name_with_dash": ({"name": "a-b"}, "name is 'a-b', .* part of the ids of tests. Call it 'a_b'."),
        "name_with_newline": ({"name": "a\n"}, r"name is 'a\\n', .* Call it 'a'."),
        "name_beyond_ascii": ({"name": "größe"}, "Call it 'gr__e'"),
        "no_kernels": ({"kernels": {}}, "copy: kernels is empty, expected at least one, such as {'numba': kernel}."),
        "kernels_no_dict": ({"kernels": kernel}, r"copy: kernels is .*CPUDispatcher.*, expected a dict by backend"),
        "unknown_backend": (
            {"kernels": {"nubma": kernel}},
            "copy: kernels: there is no backend 'nubma'. Did you mean 'numba'\\? Known are jnp, numba, numba_parallel,",
        ),
        "backend_of_another_type": ({"kernels": {3: kernel}}, "there is no backend 3. Known are jnp"),
        "backend_twice": (
            {"kernels": {"numba": kernel, Backend.NUMBA: kernel}},
            "kernels has 'numba' twice. Leave one",
        ),
        "jnp_as_kernel": (
            {"kernels": {"jnp": jnp.sin}},
            "kernels has 'jnp', which is the reference. Pass it as reference=",
        ),
        "plain_function": (
            {"kernels": {"numba": plain}},
            r"copy: kernels\['numba'\] is the plain Python function plain, expected a function decorated with "
            r"numba.njit, or a suites.NumbaKernel of one\. Decorate it with numba.njit.",
        ),
        "lambda": (
            {"kernels": {"numba_parallel": lambda x, out: None}},
            r"is a lambda, .* numba.njit\(parallel=True\).",
        ),
        "warp_under_numba": (
            {"kernels": {"numba": warp_kernel}},
            r"kernels\['numba'\] is warp_kernel \(warp's Kernel\), expected .* Declare it as 'warp'.",
        ),
        "ufunc": (
            {"kernels": {"numba": numba.vectorize(lambda x: x)}},
            r"numba's DUFunc\), .* Decorate it with numba.njit",
        ),
        "numba_under_cuda": (
            {"kernels": {"numba_cuda": kernel}},
            "is kernel .numba's CPUDispatcher.*Declare it as 'numba'.",
        ),
        "numba_in_cuda_kernel": ({"kernels": {"numba_cuda": CudaKernel(kernel, dict)}}, "is a CudaKernel, expected"),
        "numba_under_warp": ({"kernels": {"warp": kernel}}, "expected a function decorated with warp.kernel"),
        "plain_under_warp": (
            {"kernels": {"warp": plain}},
            "Decorate it with warp.kernel; .* goes into suites.WarpKernel.",
        ),
        "warp_kernel_of_none": ({"kernels": {"warp": WarpKernel(None)}}, "is a WarpKernel, expected"),
        "bare_tile": (
            {"kernels": {"warp_tile": warp_kernel}},
            "expected a suites.WarpKernel .* how its blocks are launched",
        ),
        "numba_under_callable": (
            {"kernels": {"numba_cuda_callable": kernel}},
            "expected a Python function that launches",
        ),
        "numba_under_pallas": (
            {"kernels": {"pallas": kernel}},
            "expected a function of JAX arrays.*Declare it as 'numba'.",
        ),
        "no_cuda_function": (
            {"kernels": {"cuda_raw": "int x;"}},
            r"is a str, .* one __global__ void function.*RawKernel\(",
        ),
        "two_cuda_functions": ({"kernels": {"cuda_raw": 2 * CUDA_SOURCE}}, "with one __global__ void function"),
        "cuda_template": ({"kernels": {"cuda_raw": f"template <typename T> {CUDA_SOURCE}"}}, "no template"),
        "cuda_scalar": (
            {"kernels": {"cuda_raw": "__global__ void f(float* x, float a) {}"}},
            "pointers and at most their size",
        ),
        "source_under_numba": ({"kernels": {"numba": CUDA_SOURCE}}, "Declare it as 'cuda_raw'."),
        "number_as_kernel": (
            {"kernels": {"numba": 3}},
            r"is a int \(3\), expected a function decorated with numba.njit",
        ),
        "unknown_dtype": (
            {"dtypes": ("flaot32",)},
            "copy: dtypes: there is no dtype 'flaot32' here. Did you mean 'float32'?",
        ),
        "object_as_dtype": ({"dtypes": (object,)}, "there is no dtype 'object' here. Known are bool, int8"),
        "no_dtypes": ({"dtypes": ()}, "copy: dtypes is empty, expected at least one dtype."),
        "dtype_twice": ({"dtypes": ["float32", np.float32]}, "copy: dtypes has the dtype 'float32' twice. Leave one"),
        "none_as_dtype": ({"dtypes": None}, "there is no dtype 'None' here"),
        "no_reference": ({"reference": None}, "copy: reference is None, expected a function of JAX's arrays."),
        "kernel_as_reference": (
            {"reference": kernel},
            r"copy: reference is kernel \(numba's CPUDispatcher\), .* Declare the kernel in kernels={'numba': ...}.",
        ),
        "array_as_reference": (
            {"reference": np.ones(2)},
            r"copy: reference is array.*\(of type ndarray\), expected a function",
        ),
        "class_as_reference": (
            {"reference": dict},
            r"reference is <class 'dict'> \(of type type\), expected a function",
        ),
        "array_as_sample": (
            {"sample": np.ones(2)},
            "copy: sample is .*, expected a function of a dtype, a size and a seed.",
        ),
        "dict_as_edges": ({"edges": {"nan": 1}}, "copy: edges is .*, expected a function of a dtype."),
        "number_as_flops": ({"flops": 3}, r"copy: flops is 3 \(of type int\), expected a function of the inputs."),
        "number_as_shape": ({"shape": 3}, "copy: shape is 3 .*, expected a function of the nominal size."),
        "after_csr": ({"after_csr": 3}, "copy: after_csr is 3"),
        "any_number_of_inputs": (
            {"reference": lambda *arrays: arrays[0]},
            r"copy: sample is not given, and the reference takes any number of arrays \(\*arrays\). Pass sample=",
        ),
        "needed_keyword": (
            {"reference": lambda x, *, axis: x},
            "the reference needs the keyword 'axis'.* Give that a default",
        ),
        "no_input": (
            {"reference": lambda: 1},
            "copy: sample is not given, and the reference takes no array. Pass sample=",
        ),
        "tolerance_of_text": ({"tolerance": "small"}, "copy: tolerance is 'small', expected a number such as 1e-5."),
        "negative_tolerance": ({"tolerance": -1e-5}, "copy: tolerance is -1e-05, expected a number"),
        "tolerance_and_truth": (
            {"tolerance": 1e-5, "truth": exact},
            "copy: tolerance is for a derived truth. Leave one of",
        ),
        "version": ({"version": 0}, "copy: version: got 0, expected an integer from 1 on."),
        "sizes": ({"sizes": (1, 2)}, r"copy: sizes is \(1, 2\), expected suites.Sizes\(...\)."),
        "gradient": ({"gradient": {0: 1}}, r"copy: gradient is \{0: 1\}, expected suites.Gradient\(...\)."),
        "limitations": ({"limitations": "all"}, r"copy: limitations is 'all' \(of type str\), expected a tuple"),
        "errors": (
            {"errors": [ValueError]},
            r"copy: errors has <class 'ValueError'> .*, expected suites.ErrorCase\(...\).",
        ),
        "unknown_tested": (
            {"tested": ("numba", "wrap")},
            "copy: tested: there is no backend 'wrap'. Did you mean 'warp'?",
        ),
        "tested_without_kernel": ({"tested": ("warp",)}, "copy: tested has 'warp', which has no kernel. Declare one."),
        "nothing_tested": ({"tested": ()}, "copy: tested is empty, expected at least one backend."),
    }


DECLARED = _declared()


@pytest.mark.parametrize(("changes", "message"), DECLARED.values(), ids=DECLARED)
def test_declaration_that_makes_no_sense_is_refused_when_it_is_made(changes, message):
    with pytest.raises(OperatorError, match=message):
        _operator(**changes)


_FAILURE = Failure(ValueError, "no")


def _parts():
    return {
        "negative_size": (
            lambda: Sizes(check=(1, -3)),
            "Sizes: check: got -3, expected an integer from 1 on. Declare empty",
        ),
        "size_zero": (lambda: Sizes(large=0), "Sizes: large: got 0, expected"),
        "size_twice": (lambda: Sizes(quick=[8, 8]), "Sizes: quick has the size '8' twice"),
        "size_of_text": (
            lambda: Sizes(full="big"),
            r"Sizes: full is 'big' \(of type str\), expected a tuple of sizes.",
        ),
        "true_as_size": (lambda: Sizes(large=True), "got True, expected an integer"),
        "no_sizes": (lambda: Sizes(check=()), "Sizes: check is empty"),
        "no_reason": (lambda: Limitation(" ", "numba"), "Limitation: reason is ' ', expected why"),
        "limited_backend": (lambda: Limitation("why", ("numbs",)), "Limitation: backends: .* Did you mean 'numba'?"),
        "limited_dtype": (
            lambda: Limitation("why", "numba", "float3"),
            "Limitation: dtypes: there is no dtype 'float3'",
        ),
        "limited_check": (
            lambda: Limitation("why", "numba", checks=(3,)),
            r"Limitation: checks has 3 \(of type int\), expected the names of checks.",
        ),
        "error_name": (lambda: ErrorCase("a b", tuple, {}), "ErrorCase: name is 'a b', .* Call it 'a_b'."),
        "error_inputs": (
            lambda: ErrorCase("a", (1,), {}),
            r"ErrorCase 'a': inputs is \(1,\) .*, expected a function of no",
        ),
        "error_backend": (
            lambda: ErrorCase("a", lambda: (), {"numb": _FAILURE}),
            "ErrorCase 'a': failures: .*'numba'?",
        ),
        "error_failure": (
            lambda: ErrorCase("a", lambda: (), {"numba": ValueError}),
            r"ErrorCase 'a': failures\['numba'\] is <class 'ValueError'>, expected suites.Failure\(...\).",
        ),
        "failure_class": (lambda: Failure("ValueError", "no"), "Failure: exception is 'ValueError', expected a class"),
        "failure_message": (
            lambda: Failure(ValueError, None),
            "Failure: message is None, expected a regular expression",
        ),
        "no_terms": (lambda: Gradient({}), r"Gradient: terms is {}, expected a dict from the index of an input"),
        "terms_by_name": (lambda: Gradient({"x": 1}), "Gradient: terms has 'x': 1, expected the index of an input"),
        "gradient_backend": (lambda: Gradient({0: 1}, backends="wrap"), "Gradient: backends: .* Did you mean 'warp'?"),
    }


PARTS = _parts()


@pytest.mark.parametrize(("make", "message"), PARTS.values(), ids=PARTS)
def test_part_that_makes_no_sense_is_refused_when_it_is_made(make, message):
    with pytest.raises(OperatorError, match=message):
        make()


def test_two_error_cases_of_one_name_are_refused():
    case = ErrorCase("same", lambda: np.zeros(2), {"numba": _FAILURE})
    assert [array.shape for array in case.inputs()] == [(2,)]
    assert list(case.failures) == [Backend.NUMBA]
    with pytest.raises(OperatorError, match=r"copy: errors has two cases of one name: same, same. Rename one"):
        _operator(errors=[case, case])


def _sampled(found):
    return {"sample": lambda dtype, size, seed: found(dtype, size, seed)}


X = np.ones(3, np.float32)
RETURNED = {
    "sample_of_none": (
        _sampled(lambda *_: None),
        r"copy: sample\('float32', 1, 0\): input 0 is NoneType None, expected an",
    ),
    "sample_of_numbers": (
        _sampled(lambda d, n, s: (np.ones(n, d), 0.5)),
        r"input 1 is float 0.5, expected an array. Make it",
    ),
    "sample_of_text": (_sampled(lambda *_: np.array(["a"])), "input 0 is an array of <U1, expected one of bool, int8"),
    "sample_of_another_dtype": (
        {"dtypes": ("float16",), **_sampled(lambda d, n, s: np.ones(n))},
        r"sample\('float16', 1, 0\) returned float32, expected float16 for one of the inputs at least. .*astype",
    ),
    "sample_too_large": (_sampled(lambda d, n, s: (np.ones(n, d), np.full(n, 2**40))), "has values beyond int32"),
    "sample_of_varying_shape": (_sampled(lambda d, n, s: np.ones(n + s, d)), "has other shapes for another seed"),
    "sample_raises": (
        _sampled(lambda d, n, s: 1 / 0),
        r"sample\('float32', 1, 0\) raised ZeroDivisionError: division by",
    ),
    "reference_of_none": (
        {"reference": lambda x: None},
        "copy: reference returned no array, expected one for each output",
    ),
    "reference_of_text": ({"reference": lambda x: "x"}, "copy: reference returned str 'x', expected arrays"),
    "reference_raises": ({"reference": lambda x: x @ jnp.ones((7, 7))}, "copy: reference raised TypeError: "),
    "outputs_of_shapes": (
        {"outputs": lambda x: x.shape},
        r"copy: outputs returned \[1\], expected a jax.ShapeDtypeStruct",
    ),
    "outputs_unlike_reference": (
        {"outputs": lambda x: [x, x]},
        r"copy: outputs declares float32\[1\], float32\[1\], but the reference returns float32\[1\]. Change one",
    ),
    "outputs_raise": ({"outputs": lambda: []}, "copy: outputs raised TypeError: .*positional argument"),
    "truth_of_an_array": (
        {"truth": lambda x: x},
        "copy: truth returned an array of float32, expected suites.exact.*Leave it",
    ),
    "truth_of_nothing": ({"truth": lambda x: ()}, r"copy: truth returned tuple \(\), expected"),
    "truth_of_another_dtype": (
        {"truth": lambda x: bounded(x.astype(np.float64), "float64", ulps=1)},
        r"copy: truth has float64\[1\], expected float32\[1\] as in outputs.",
    ),
    "edges_of_a_tuple": (
        {"edges": lambda dtype: (X,)},
        r"copy: edges\('float32'\) returned .*, expected a dict of inputs",
    ),
    "edge_of_a_number": (
        {"edges": lambda dtype: {"a": 1}},
        r"copy: edges\('float32'\)\['a'\]: input 0 is int 1, expected an",
    ),
    "edge_with_space": ({"edges": lambda dtype: {"a b": X}}, r"copy: edges\('float32'\): the name of a case is 'a b'"),
    "edge_of_two_inputs": (
        {"edges": lambda dtype: {"a": (X, X)}},
        r"\['a'\] has 2 inputs, expected 1 as in the sample",
    ),
    "edge_of_another_dtype": ({"edges": lambda d: {"a": np.ones(2, "float16")}}, "returned float16, expected float32"),
    "bytes_of_text": ({"bytes_read": lambda x: "4"}, "copy: bytes_read returned str '4', expected how many there are"),
    "negative_bytes": ({"bytes_written": lambda x: -4}, "copy: bytes_written returned int -4, expected how many"),
    "no_bytes": ({"bytes_read": lambda x: None}, "copy: bytes_read returned NoneType None"),
    "flops_raise": (
        {"flops": lambda x, y: 0},
        "copy: flops raised TypeError: .*missing 1 required positional argument",
    ),
    "gradient_of_no_input": (
        {"gradient": Gradient({1: 0})},
        r"copy: gradient.terms has input 1, expected .*floats: \[0\]",
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


def test_errors_are_caught_as_the_built_in_ones():
    assert issubclass(OperatorError, ValueError)
    assert issubclass(OperatorError, TypeError)
    assert issubclass(CatalogueError, ValueError)


def test_an_unknown_field_is_pythons_own_error():
    with pytest.raises(TypeError, match="unexpected keyword argument 'kernel'"):
        _operator(kernel=kernel)


class TestDeclaredDtypes:
    """A kernel that is declared for some of the dtypes has no cells in the others."""

    def test_of_warp(self):
        operator = _operator(kernels={"warp": warp_kernel}, dtypes=("float32", "float64"))
        assert operator.unsupported(Backend.WARP, "cpu", "float32") is None
        reason = "the warp kernel is declared for float32 alone"
        assert operator.unsupported(Backend.WARP, "cpu", "float64") == reason

    def test_of_numba(self):
        declared = numba.njit(["void(int32[:], int32[:])", "void(float32[:], float32[:])"])(plain)
        operator = _operator(kernels={"numba": declared}, dtypes=("float32", "float64", "int32"))
        skipped = {dtype: operator.unsupported(Backend.NUMBA, "cpu", dtype) for dtype in operator.dtypes}
        assert skipped == {
            "float32": None,
            "int32": None,
            "float64": "the numba kernel is declared for float32, int32 alone",
        }

    def test_of_cuda_cpp(self):
        operator = _operator(kernels={"cuda_raw": CUDA_SOURCE})
        assert "alone" in operator.unsupported(Backend.CUDA_RAW, "cuda", "float64")

    def test_one_that_fits_none_is_wrong_rather_than_skipped(self):
        operator = _operator(kernels={"warp": warp_kernel}, dtypes=("float64", "int32"))
        assert operator.unsupported(Backend.WARP, "cpu", "float64") is None

    def test_generic_kernels_take_what_comes(self):
        @wp.kernel
        def generic(x: wp.array(dtype=typing.Any), out: wp.array(dtype=typing.Any)):
            i = wp.tid()
            out[i] = x[i]

        operator = _operator(kernels={"warp": generic, "numba": kernel}, dtypes=("float64", "int8"))
        for backend in operator.backends():
            assert operator.unsupported(backend, "cpu", "int8") is None


def test_what_was_compiled_for_equal_operators_is_shared():
    first, second = (_operator(kernels={"warp": warp_kernel}) for _ in range(2))
    inputs = [jax.ShapeDtypeStruct((8,), np.float32)]
    assert first.build(Backend.WARP, inputs) is second.build(Backend.WARP, inputs)
