"""A user adds a kernel language in one file, declares its kernels in another, and every command knows it.

The toy language is arithmetic on arrays as text, such as ``"2 * x + 1"``.
"""

import pickle

import pytest

from reports import Status, find_run, load_run
from reports.options import Exit
from suites import Backend, OperatorError, register_backend
from suites.backends import BACKENDS
from suites.unit import processes

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


def command(folder, operators, command, *arguments):
    """Runs a command on operators in a process of its own: the backends of this one stay as they are."""
    (folder / "formula_language.py").write_text(LANGUAGE, encoding="utf-8")
    (folder / "my_ops.py").write_text(operators, encoding="utf-8")
    return processes.run("-m", "suites", command, "my_ops.py", *arguments)


def test_validate_checks_its_kernels_and_catches_a_wrong_one(folder):
    few = ("--dtype", "float32", "--profile", "quick", "--jobs", "1", "--", "-k", "compiled")
    done = command(folder, OPERATORS, "validate", *few)
    assert done.returncode == Exit.WRONG, done.stderr
    found = {(one.cell.operator, one.status) for one in load_run(find_run()).records if one.cell.backend == "formula"}
    assert {("polynomial", Status.PASSED), ("difference", Status.WRONG_VALUE)} <= found
    assert ("polynomial", Status.WRONG_VALUE) not in found


def test_an_error_about_its_kernel_names_the_language(folder):
    done = command(folder, OPERATORS.replace('"x * x + y"}', "3}"), "list")
    assert done.returncode == Exit.COULD_NOT_RUN
    assert "kernels['formula'] is a int (3), expected arithmetic of x, y and z as text. Write it with x." in done.stderr


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
    assert [backend.id for backend in BACKENDS.values()][:3] == ["jnp", "numba", "numba_parallel"]
    assert all(BACKENDS[backend.id] is backend for backend in BACKENDS.values())
    assert all(pickle.loads(pickle.dumps(backend)) is backend for backend in BACKENDS.values())
    with pytest.raises(OperatorError, match=r"no backend .* .nothing. in this process .* Import the file"):
        pickle.loads(pickle.dumps(_backend()))
