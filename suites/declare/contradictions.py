"""Finds contradictions in an operator, on its smallest inputs, before any of its kernels is compiled."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np

from reports import Status
from suites.backends.backend import Backend
from suites.declare.input_names import input_names
from suites.declare.operator import Operator
from suites.errors import OperatorError
from suites.numerics.arrays import Inputs
from suites.numerics.precision import precision
from suites.numerics.verdict import judge


def verify(operator: Operator) -> None:
    """Calls the functions of an operator in each of its dtypes, and compares their results with each other.

    Raises:
        OperatorError: A function raises, or its results do not fit the results of another function.
    """
    _check_limitations(operator)
    for dtype in operator.dtypes:
        size = operator.sizes.check[0]
        with _telling(operator, f"sample({dtype!r}, {size}, 0)"):
            inputs, other = (operator.sample(dtype, size, seed) for seed in (0, 1))
        if [array.shape for array in inputs] != [array.shape for array in other]:
            raise OperatorError(
                f"{operator.name}: sample({dtype!r}, {size}, seed) has other shapes for another seed, expected shapes "
                "that follow from the size alone, so that samples can be batched."
            )
        with _telling(operator, "edges"):
            edges = operator.edges(dtype)
        for name, case in edges.items():
            if len(case) != len(inputs):
                raise OperatorError(
                    f"{operator.name}: edges({dtype!r})[{name!r}] has {len(case)} inputs, expected {len(inputs)} as in "
                    "the sample."
                )
        _check_domains(operator, inputs)
        _compare_outputs(operator, inputs)
        for work in ("bytes_read", "bytes_written", "flops"):
            with _telling(operator, work):
                getattr(operator, work)(*inputs)
        _check_gradient(operator, inputs)
    _refuse_kernels_in_reference(operator)
    _refuse_truth_that_accepts_zeros(operator)


def _check_limitations(operator: Operator) -> None:
    gradient = operator.gradient
    limitations = [each for each in (*operator.limitations, *(gradient.limitations if gradient else ())) if each.edges]
    if not limitations:
        return
    with _telling(operator, "edges"):
        known = {name for dtype in operator.dtypes for name in operator.edges(dtype)}
    known |= {case.name for case in operator.errors}
    for limitation in limitations:
        for name in limitation.edges:
            if name not in known:
                near = difflib.get_close_matches(str(name), known, 1)
                hint = f" Did you mean {near[0]!r}?" if near else ""
                raise OperatorError(
                    f"{operator.name}: a limitation names the edge case {name!r}, which there is not.{hint} Known are "
                    f"{', '.join(sorted(known)) or 'none'}."
                )


def _check_domains(operator: Operator, inputs: Inputs) -> None:
    names = input_names(operator.reference, len(inputs))
    for index, array in enumerate(inputs):
        with _telling(operator, "domains"):
            outside = operator.domain_of(index).outside(array, inputs)
        if outside is not None:
            raise OperatorError(
                f"{operator.name}: the sample of {names[index]} has {outside}, expected the domain that domains "
                f"declares: {operator.domain_of(index)}. Change one of them."
            )


def _compare_outputs(operator: Operator, inputs: Inputs) -> None:
    with _telling(operator, "reference"), precision(*(array.dtype for array in inputs)):
        found = jax.eval_shape(operator.reference, *inputs)
    with _telling(operator, "outputs"):
        declared = operator.outputs(*inputs)
    if _types(found) != _types(declared):
        raise OperatorError(
            f"{operator.name}: outputs declares {_listed(declared)}, but the reference returns {_listed(found)}. "
            "Change one of them, or leave outputs out to have those of the reference."
        )
    with _telling(operator, "truth"):
        expected = operator.truth(*inputs).outputs
    true = [jax.ShapeDtypeStruct(each.value.shape, each.dtype) for each in expected]
    if _types(true) != _types(declared):
        raise OperatorError(
            f"{operator.name}: truth has {_listed(true)}, expected {_listed(declared)} as in outputs. The dtype that "
            "suites.bounded gets is that of the output, not of the wide value."
        )


def _check_gradient(operator: Operator, inputs: Inputs) -> None:
    floats = [index for index, array in enumerate(inputs) if array.dtype.kind == "f"]
    gradient = operator.gradient
    field = "terms" if gradient and gradient.terms else "inputs"
    for index in (gradient.terms or gradient.inputs or ()) if gradient else ():
        if index >= len(inputs) or (inputs and floats and index not in floats):
            raise OperatorError(
                f"{operator.name}: gradient.{field} has input {index}, expected one of the inputs of floats: {floats}."
            )


def _refuse_kernels_in_reference(operator: Operator) -> None:
    """Refuses a reference that calls a kernel of the bridge: the kernel would be compared with itself."""
    dtype = operator.dtypes[0]
    inputs = operator.sample(dtype, operator.sizes.check[0], 0)
    with _telling(operator, "reference"), precision(*(array.dtype for array in inputs)):
        program = jax.jit(operator.reference).lower(*inputs).as_text()
    for target in {target for backend in Backend for target in backend.targets.values() if target}:
        if f"@{target}(" in program:
            raise OperatorError(
                f"{operator.name}: reference calls a kernel ({target}), expected JAX's own operations, which the "
                "kernel is compared with. Write it with jax.numpy."
            )


def _refuse_truth_that_accepts_zeros(operator: Operator) -> None:
    """Refuses a declared truth or tolerance whose margin is so wide that a result of zeros is right.

    An output that is zero nearly everywhere, or nearly zero beside its terms, says nothing; another sample may.
    """
    if operator.derives_truth and operator.tolerance is None:
        return
    for dtype in operator.dtypes:
        accepted = []
        for size in operator.sizes.check:
            with _telling(operator, f"sample({dtype!r}, {size}, 0)"):
                inputs = operator.sample(dtype, size, 0)
            with _telling(operator, "truth"):
                truth = operator.truth(*inputs)
            zeros = [np.zeros(each.value.shape, each.dtype) for each in truth.outputs]
            ones = [np.ones(each.value.shape, each.dtype) for each in truth.outputs]
            wrong = (judge(zeros, truth), judge(ones, truth))
            accepted.append(all(verdict.status is Status.PASSED for verdict in wrong) and any(map(np.size, zeros)))
        if all(accepted):
            what = "truth" if operator.tolerance is None else f"tolerance {operator.tolerance:g}"
            raise OperatorError(
                f"{operator.name}: {what} accepts zeros as well as ones for every sample in {dtype}, expected a margin "
                "that only right results keep. Lower it, or leave it out to have it derived from the reference."
            )


@contextlib.contextmanager
def _telling(operator: Operator, field: str) -> Iterator[None]:
    """Adds the name of the operator and of its function to an error."""
    try:
        yield
    except OperatorError:
        raise
    except Exception as error:
        said = (str(error).strip() or "without a message").splitlines()[0]
        raise OperatorError(f"{operator.name}: {field} raised {type(error).__name__}: {said}") from error


def _types(structs: Sequence[Any]) -> list[tuple[tuple[int, ...], np.dtype[Any]]]:
    return [(tuple(each.shape), np.dtype(each.dtype)) for each in structs]


def _listed(structs: Sequence[Any]) -> str:
    return ", ".join(f"{dtype.name}{list(shape)}" for shape, dtype in _types(structs)) or "nothing"
