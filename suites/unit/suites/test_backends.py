"""Backends accept bare kernels: their launch has a thread per element of the first output."""

import pickle
from pathlib import Path

import jax
import numpy as np
import pytest
import warp as wp

from suites import Backend, OperatorError, RawKernel, WarpKernel, backends, register_backend
from suites.backends import BACKENDS, numba_cuda, numba_cuda_mlir
from suites.declare.acceptance import accepted
from suites.kernels.numba_cuda.blocks import MISSING, cuda, roomy_kernel
from suites.unit.processes import output


def test_every_file_has_a_row_and_every_row_names_functions_that_exist():
    files = {path.stem for path in Path(backends.__file__).parent.glob("*.py")} - {
        "__init__",
        "backend",
        "custom_kernel",
    }
    table = Path(backends.__file__).read_text(encoding="utf-8")
    assert [file for file in sorted(files) if f'"backends.{file}"' not in table] == []
    for backend in BACKENDS.values():
        assert backend.accept(object()) is None, backend
        assert backend.missing() is None or backend.missing(), backend


def test_a_numba_kernel_is_checked_without_the_import_of_other_languages():
    program = """
import sys, numba
import suites.validate.checks_plugin
from suites import Operator
Operator(name="double", reference=lambda x: x + x, kernels={"numba": numba.njit(lambda x, out: None)})
print([name for name in ("warp", "numba.cuda", "triton", "cupy", "scipy.stats") if name in sys.modules])"""
    assert output("-c", program) == "[]"


def _struct(*shape, dtype="float32"):
    return jax.ShapeDtypeStruct(shape, np.dtype(dtype))


@pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
def test_numba_cuda():
    @cuda.jit
    def copy(x, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = x[i]

    kernel = accepted("", BACKENDS["numba_cuda"], copy)
    assert kernel.dispatcher is copy
    assert kernel.launch([_struct(9)], [_struct(3, 5), _struct(7)]) == {"launch_dims": 15}
    assert kernel.launch([_struct(9)], [_struct()]) == {"launch_dims": 1}
    assert accepted("", BACKENDS["numba_cuda"], kernel) is kernel


@wp.kernel
def lengths(x: wp.array(dtype=wp.vec3), scale: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = scale[0] * wp.length(x[i])


def test_an_output_of_warp_has_the_shape_of_the_operator_whatever_is_launched():
    launched = accepted("", BACKENDS["warp"], WarpKernel(lengths, lambda inputs, outs: {"launch_dims": 2}))
    assert launched.options_of([_struct(4, 3), _struct(1)], [_struct(4)]) == {
        "launch_dims": 2,
        "output_dims": {"out": (4,)},
    }


CUDA = {
    "size": ("(const double *x, double *__restrict__ out, long long n)", ("float64", "float64"), (np.int64(6),)),
    "int_size": (
        "(float const* x, const int32_t* i, unsigned char* out, int n)",
        ("float32", "int32", "uint8"),
        (np.int32(6),),
    ),
    "unknown_type": ("(const half* x, half* out, size_t n)", (None, None), (np.uint64(6),)),
}


@pytest.mark.parametrize(("parameters", "dtypes", "scalars"), CUDA.values(), ids=CUDA)
def test_cuda_cpp(parameters, dtypes, scalars):
    source = f"""
    /* __global__ void not_this( */
    __device__ int helper(int i) {{ return i; }}
    __global__ void copy{parameters} {{}}"""
    kernel = accepted("", BACKENDS["cuda_raw"], source)
    assert isinstance(kernel, RawKernel)
    assert (kernel.source, kernel.name("float32")) == (source, "copy")
    launch = kernel.launch([_struct(4)], [_struct(2, 3)])
    assert launch == {"launch_dims": 6, "scalars": scalars}
    assert [type(each) for each in launch["scalars"]] == [type(each) for each in scalars]
    assert kernel.declared_dtypes() == [dtypes]


def test_a_function_without_a_decorator_is_not_taken_for_a_cuda_kernel(monkeypatch):
    monkeypatch.setattr(numba_cuda, "MISSING", "numba-cuda is not installed")
    with pytest.raises(OperatorError, match=r"Decorate it with numba\.njit"):
        accepted("kernels['numba']", BACKENDS["numba"], lambda x, out: None)


@pytest.mark.parametrize(("setting", "precision"), [(None, "HIGHEST"), ("tensorfloat32", "HIGH")])
def test_jnp_multiplies_in_float32_unless_the_user_says_otherwise(setting, precision):
    matrix = np.ones((4, 4), np.float32)
    with jax.default_matmul_precision(setting):
        call = accepted("product", BACKENDS["jnp"], lambda a, b: a @ b).build((matrix, matrix), ())
        program = jax.make_jaxpr(call)(matrix, matrix)
    (product,) = [equation for equation in program.eqns if equation.primitive.name == "dot_general"]
    assert product.params["precision"][0].name == precision


class TestNumbaCudaMlir:
    @pytest.fixture(autouse=True)
    def compiler(self):
        pytest.importorskip("numba_cuda_mlir", reason="numba-cuda-mlir is not installed")

    def test_a_ported_kernel_keeps_its_options_and_default_values(self):
        def kernel(x, out, *, factor=2):
            return factor

        roomy = numba_cuda_mlir.ported(roomy_kernel(256, 2)(kernel))
        assert roomy.targetoptions["launch_bounds"] == (256, 2)
        assert roomy.py_func(0, 0) == 2
        assert numba_cuda_mlir.ported(roomy) is roomy


# A user adds a kernel language in one file: a toy here, arithmetic as text, which ``test_validation`` validates.


LANGUAGE = '''
"""Adds the backend ``formula``: arithmetic on arrays, as text."""

from dataclasses import dataclass

import jax

from suites import Backend, Kernel, register_backend


@dataclass(frozen=True)
class Formula(Kernel):
    text: str

    def build(self, inputs, outs):
        names = "xyz"[: len(inputs)]
        return jax.jit(lambda *arrays: [eval(self.text, dict(zip(names, arrays)))])


def accept(kernel):
    if isinstance(kernel, Formula):
        return kernel
    return Formula(kernel) if isinstance(kernel, str) and "x" in kernel else None


register_backend(
    Backend(
        id="formula",
        targets={"cpu": None},
        accept=accept,
        expected="arithmetic of x, y and z as text",
        cure="Write it with x.",
        missing_dtypes={"float16": "formulas have no float16"},
    )
)
'''
OPERATORS = """
import formula_language
from suites import Operator

RIGHT = Operator(
    name="polynomial",
    reference=lambda x, y: x * x + y,
    kernels={"formula": "x * x + y"},
    dtypes=("float32", "float16"),
)
WRONG = Operator(name="difference", reference=lambda x, y: x - y, kernels={"formula": "y - x"}, dtypes="float32")
"""


def _nothing(**changes):
    facts = {"id": "nothing", "targets": {"cpu": None}, "accept": lambda kernel: None, "expected": "it", "cure": "Go."}
    return Backend(**(facts | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"id": "numba"}, "Backend 'numba': the id is taken .registered: jnp, numba, "),
        ({"id": "My-C"}, "Backend: id is 'My-C', expected lower case letters, digits and _."),
        ({"targets": {"gpu": None}}, r"Backend 'nothing': targets has \['gpu'\], expected 'cpu', 'cuda' or both."),
        ({"targets": {}}, r"Backend 'nothing': targets has \[\], expected 'cpu', 'cuda' or both."),
    ],
)
def test_a_backend_that_makes_no_sense_is_refused(changes, message):
    before = list(BACKENDS.values())
    with pytest.raises(OperatorError, match=message):
        register_backend(_nothing(**changes))
    assert list(BACKENDS.values()) == before


def test_backends_are_found_by_name_and_stay_themselves_in_other_processes():
    assert all(BACKENDS[backend.id] is backend for backend in BACKENDS.values())
    assert all(pickle.loads(pickle.dumps(backend)) is backend for backend in BACKENDS.values())
    with pytest.raises(OperatorError, match=r"no backend .* .nothing. in this process .* Import the file"):
        pickle.loads(pickle.dumps(_nothing()))
