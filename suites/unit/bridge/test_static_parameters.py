"""Checks that operators tell their static parameters apart by content, and find the program for equal ones."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bridge import XLACustomKernel

SPEC = jax.ShapeDtypeStruct((), np.float32)


@dataclasses.dataclass(frozen=True)
class Record:
    first: object
    second: object = 0


@pytest.mark.parametrize("contain", [lambda v: v, lambda v: (v,), Record])
def test_no_call_gets_the_program_of_another_value(contain):
    """Not from the parameters of a call, nor from a configuration."""
    made = []

    def generator(outs, value):
        made.append(value)
        return lambda: jnp.float32(hash(repr(value)) % 1000)

    op = XLACustomKernel("written")
    op.def_kernel("mine", "cpu", generator)
    values = [contain(value) for value in (0.0, -0.0, 1, True, 1.0, np.float32(1), math.nan)]
    texts = [hash(repr(value)) % 1000 for value in values]
    assert [int(op(outs=SPEC, value=value)) for value in values * 2] == texts * 2
    assert len(made) == 7
    assert [int(jax.jit(lambda value=value: op(outs=SPEC, value=value))()) for value in values] == texts
    for value, text in zip(values, texts, strict=True):
        op.def_kernel("mine", "cpu", generator, configurations={"only": {"value": value}})
        assert op(outs=SPEC) == text
