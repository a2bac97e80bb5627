"""A record holds the lines of the compiled program that show what ran."""

import jax
import jax.numpy as jnp
import numba

from bridge import numba_kernel
from suites.bench.compiled_lines import MOST_CHARACTERS, MOST_LINES, compiled_lines


@numba.njit
def double(x, out):
    for i in range(x.size):
        out[i] = 2 * x[i]


def text_of(function):
    return jax.jit(function).lower(jnp.ones(8)).compile().as_text()


def test_a_kernel_is_seen_by_its_call():
    call = numba_kernel(double, jax.ShapeDtypeStruct((8,), jnp.float32))
    (line,) = compiled_lines(text_of(lambda x: 1 + call(x + 1)))
    assert 'custom_call_target="bridge_cpu"' in line


def test_code_of_xla_is_seen_by_its_instructions():
    lines = compiled_lines(text_of(lambda x: jnp.sin(x) * 2))
    assert any(line.startswith("ROOT ") for line in lines)


def test_long_programs_and_lines_are_cut():
    program = "ENTRY main {\n" + "\n".join(f"  a{i} = f32[] custom-call({'x' * 400})" for i in range(20)) + "\n}"
    lines = compiled_lines(program)
    assert len(lines) == MOST_LINES + 1
    assert lines[-1] == "…"
    assert all(len(line) <= MOST_CHARACTERS for line in lines)
    assert compiled_lines("") == []
