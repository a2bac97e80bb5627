"""Finds contradictions in an operator, on its smallest inputs, before any of its kernels is compiled."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

import jax

from bridge import SignatureError
from suites.declare.answers import default_hint
from suites.declare.input_arrays import input_names
from suites.declare.operator import Operator
from suites.errors import OperatorError
from suites.numerics.arrays import Inputs, specs
from suites.numerics.precision import precision

_OTHER_RANK = ("tuple index out of range", "built-in function getitem", "built-in function setitem", "unpack")
"""Words of Numba's errors about an array of fewer dimensions than a kernel uses."""


def verify(operator: Operator, platform: str = "cpu") -> None:
    """Calls the functions of an operator in each of its dtypes, and compares their results with each other.

    Raises:
        OperatorError: A function raises, or its results contradict those of another function. Or no kernel that can run
            on the platform takes the default inputs.
    """
    for dtype in operator.dtypes:
        size = operator.sizes.check[0]
        with _naming(operator, f"sample({dtype!r}, {size}, 0)"):
            inputs, other = (operator.sample(dtype, size, seed) for seed in (0, 1))
        if [array.shape for array in inputs] != [array.shape for array in other]:
            raise OperatorError(
                f"{operator.name}: sample({dtype!r}, {size}, seed) has other shapes for another seed, expected shapes "
                "that follow from the size alone, so that samples can be batched."
            )
        with _naming(operator, "edges"):
            operator.edges(dtype)
        _check_domains(operator, inputs)
        _compare_outputs(operator, inputs)
    _refuse_default_inputs(operator, platform)


def _check_domains(operator: Operator, inputs: Inputs) -> None:
    names = input_names(operator.reference, len(inputs))
    for index, array in enumerate(inputs):
        with _naming(operator, "domains"):
            outside = operator.domain_of(index).outside(array, inputs)
        if outside is not None:
            raise OperatorError(
                f"{operator.name}: the sample of {names[index]} has {outside}, expected the domain that domains "
                f"declares: {operator.domain_of(index)}. Change one of them."
            )


def _compare_outputs(operator: Operator, inputs: Inputs) -> None:
    with _naming(operator, "reference"), precision(*(array.dtype for array in inputs)):
        results = jax.eval_shape(operator.reference, *inputs)
    with _naming(operator, "outputs"):
        declared = operator.outputs(*inputs)
    if specs(results) != specs(declared):
        raise OperatorError(
            f"{operator.name}: outputs declares {_types_text(declared)}, but the reference returns "
            f"{_types_text(results)}. Change one of them, or leave outputs out to use those of the reference."
        )
    with _naming(operator, "truth"):
        operator.truth(*inputs)


def _refuse_default_inputs(operator: Operator, platform: str) -> None:
    """Refuses an operator with default inputs that no kernel takes; it traces a call of each kernel."""
    dtype = operator.dtypes[0]
    inputs = operator.sample(dtype, operator.sizes.check[1 % len(operator.sizes.check)], 0)
    hint = default_hint(operator.sample, input_names(operator.reference, len(inputs)))
    refusals = []
    for backend in operator.kernels if hint else ():
        if operator.unsupported(backend, platform, dtype) is not None:
            continue
        try:
            with precision(dtype):
                jax.eval_shape(operator.build(backend, inputs), *inputs)
            return
        except Exception as error:
            text = str(error)
            if not isinstance(error, SignatureError) and not any(sign in text for sign in _OTHER_RANK):
                return  # another fault, which the checks will report
            refusals.append(f"{backend.id}: {' '.join(text.split())[:200]}")
            vector = re.search(r"\((\d+),\) of each element", text)
            hint = hint.replace('"m n"', f'"n {vector[1]}"') if vector else hint
    if refusals:
        raise OperatorError(f"{operator.name}: no kernel takes the default inputs ({'; '.join(refusals)}): {hint}.")


@contextlib.contextmanager
def _naming(operator: Operator, field: str) -> Iterator[None]:
    """Adds the name of the operator and of its function to an error."""
    try:
        yield
    except OperatorError:
        raise
    except Exception as error:
        message = (str(error).strip() or "without a message").splitlines()[0]
        count = getattr(operator.sample, "count", None) or 0
        may_be_shapes = field == "reference" and not isinstance(error, NameError | ImportError)
        hint = default_hint(operator.sample, input_names(operator.reference, count)) if may_be_shapes else ""
        if may_be_shapes and operator.shapes is not None:
            hint = f"the argument shapes={operator.shapes} makes an input for each text"
        hint = f". {hint[0].upper()}{hint[1:]}." if hint else ""
        raise OperatorError(f"{operator.name}: {field} raised {type(error).__name__}: {message}{hint}") from error


def _types_text(structs: Sequence[Any]) -> str:
    return ", ".join(f"{each.dtype.name}{list(each.shape)}" for each in specs(structs)) or "nothing"
