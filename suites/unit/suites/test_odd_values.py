"""Public functions refuse odd values with a documented error: they never crash, hang or fail by accident."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import bridge
import reports
import suites

ODD = [
    None, True, 0, -1, 2**70, 1.5, float("nan"), "", "x\x1b[31m", "../x", "a\0b", b"\xff", [], [None], {}, {"a": 1}, (),
    (1, 2), set(), object(), len, lambda *a: a, lambda: None, int, np.float32, "float32", np.zeros(3), np.zeros((0,)),
    np.array("x"), jnp.zeros(3), jax.ShapeDtypeStruct((3,), np.float32), jax.ShapeDtypeStruct((), np.int32), ...,
    NotImplemented, Exception("x"), np.dtype("O"), slice(None), range(3),
]  # fmt: skip

PYTHON = (TypeError, ValueError)
"""What Python's own functions raise for a wrong type or value."""

DOCUMENTED = {
    "bridge": (bridge.BridgeError,),
    "reports": (reports.ReportError, *PYTHON),
    # The helpers of truths compute with arrays, and raise what NumPy raises.
    "suites": (suites.OperatorError, bridge.BridgeError, *PYTHON, AttributeError, ArithmeticError, LookupError),
}

PASSED_THROUGH = {"bridge.tune": PYTHON}
"""What may come from a function that somebody passes."""

RECORDS = (reports.CellResult, reports.Record)


def public(package):
    """The functions, and the classes that people make objects of. What is in a record, the reader checks for types."""
    for name in package.__all__:
        found = getattr(package, name)
        is_part = inspect.isclass(found) and package is reports and found is not reports.RunWriter
        is_error = inspect.isclass(found) and issubclass(found, BaseException)
        if callable(found) and not is_error and (not is_part or found in RECORDS):
            yield f"{package.__name__}.{name}", found


FUNCTIONS = dict(pair for package in (bridge, reports, suites) for pair in public(package))


@st.composite
def odd_arguments(draw, function):
    """A value for each parameter that needs one, and for a few others."""
    positional, named = [], {}
    for parameter in inspect.signature(function).parameters.values():
        needs = parameter.default is parameter.empty and parameter.kind not in (
            parameter.VAR_POSITIONAL,
            parameter.VAR_KEYWORD,
        )
        if needs and parameter.kind is not parameter.KEYWORD_ONLY:
            positional.append(draw(st.sampled_from(ODD)))
        elif needs or (parameter.default is not parameter.empty and draw(st.integers(0, 3)) == 0):
            named[parameter.name] = draw(st.sampled_from(ODD))
    return positional, named


# NumPy and JAX warn about some dtypes.
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_odd_values_are_refused(name, folder):
    said: list[str] = []
    documented = (*DOCUMENTED[name.partition(".")[0]], *PASSED_THROUGH.get(name, ()))

    @settings(
        max_examples=60, deadline=60_000, database=None, derandomize=True, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(odd_arguments(FUNCTIONS[name]))
    def call(arguments):
        positional, named = arguments
        try:
            FUNCTIONS[name](*positional, **named)
        except documented as error:
            said.append(str(error))

    call()
    assert all(said)  # each says something
    assert not (folder.parent / "x").exists()  # "../x" is one of the values
    assert not (folder.parent / "x.jsonl").exists()
