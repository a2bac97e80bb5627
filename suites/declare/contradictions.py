"""Finds contradictions in an operator, on its smallest inputs, before any of its kernels is compiled."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np

from suites.declare.input_names import input_names
from suites.declare.operator import Operator
from suites.errors import OperatorError
from suites.numerics.arrays import Inputs
from suites.numerics.precision import precision


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
    for index in operator.gradient.terms if operator.gradient else ():
        if index >= len(inputs) or (inputs and floats and index not in floats):
            raise OperatorError(
                f"{operator.name}: gradient.terms has input {index}, expected one of the inputs of floats: {floats}."
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
