"""Calls that make no sense are refused with an error that says what to do, for every built-in operator and backend."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from suites.cells.tables.calls import kernels
from suites.numerics.precision import precision

KERNELS = [cell for platform in ("cpu", "cuda") for cell in kernels(platform)]
TYPED = [cell for cell in KERNELS if cell.values[0].backend.typed]
WITH_FLOATS = [cell for cell in KERNELS if (case := cell.values[0]).operator.float_input(case.inputs()) is not None]


def _is_without_rule(case):
    """Whether a kernel has no derivative, though its result is a float.

    Warp generates a derivative for some kernels whose operator declares none.
    """
    return (
        not case.has_gradient
        and not case.operator.generates_adjoint(case.backend, case.dtype)
        and np.dtype(case.operator.outputs(*case.inputs())[0].dtype).kind == "f"
    )


DIRECT = [cell for cell in TYPED if cell.values[0].operator.is_direct(cell.values[0].backend)]
"""Kernels that get the inputs of a call and no other arrays."""

WITHOUT_HALF = [
    cell
    for cell in WITH_FLOATS
    if (case := cell.values[0]).backend.typed and case.backend.unsupported(case.platform, "float16")
]
WITHOUT_RULE = [cell for cell in WITH_FLOATS if _is_without_rule(cell.values[0])]


def cells(chosen):
    return pytest.mark.parametrize("case", chosen)


@pytest.fixture
def call(case):
    """The operator and its inputs, in the precision and on the device of the case."""
    with precision(case.dtype), jax.default_device(case.device):
        inputs = [jnp.asarray(array) for array in case.inputs()]
        yield case.operator.build(case.backend, inputs), inputs


def _counts(got, expected):
    """Matches both counts: Numba tells inputs from outputs only by the declared outputs, Warp counts names."""
    return rf"got {got} (inputs and has \d outputs declared|arguments, expected {expected}: )"


@cells(DIRECT)
def test_missing_input_is_refused_with_both_counts(call):
    function, inputs = call
    with pytest.raises(TypeError, match=_counts(len(inputs) - 1, len(inputs))):
        function(*inputs[:-1])


@cells(WITHOUT_HALF)
@pytest.mark.parametrize("half", ["float16", "bfloat16"])
def test_half_precision_is_refused_with_a_cure(call, half):
    function, inputs = call
    with pytest.raises(TypeError, match=rf"no {half} arrays.*float32"):
        function(*[array.astype(half) if jnp.issubdtype(array.dtype, np.floating) else array for array in inputs])


@cells(WITHOUT_RULE)
def test_gradient_without_a_rule_says_how_to_attach_one(case, call):
    function, inputs = call
    index = case.operator.float_input(inputs)

    def loss(x):
        return function(*inputs[:index], x, *inputs[index + 1 :])[0].sum()

    with pytest.raises(NotImplementedError, match=r"custom_vjp"):
        jax.grad(loss)(inputs[index])
