"""A user adds a kernel language in one file: a toy here, arithmetic as text, which ``test_validation`` validates."""

import pickle

import pytest

from suites import Backend, OperatorError, register_backend
from suites.backends import BACKENDS

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


def _backend(**changes):
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
        register_backend(_backend(**changes))
    assert list(BACKENDS.values()) == before


def test_backends_are_found_by_name_and_stay_themselves_in_other_processes():
    assert all(BACKENDS[backend.id] is backend for backend in BACKENDS.values())
    assert all(pickle.loads(pickle.dumps(backend)) is backend for backend in BACKENDS.values())
    with pytest.raises(OperatorError, match=r"no backend .* .nothing. in this process .* Import the file"):
        pickle.loads(pickle.dumps(_backend()))
