"""The memory of a call."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp

from suites.timing.resources import _grown_bytes, planned_bytes, resources

SIZE = 1 << 16


def test_results_and_temporary_arrays_are_planned():
    x = jnp.ones(SIZE)
    small = planned_bytes(jax.jit(lambda x: 2 * x).lower(x).compile())
    large = planned_bytes(jax.jit(lambda x: jnp.sort(jnp.cumsum(x))[::-1] @ jnp.sort(jnp.sin(x))).lower(x).compile())
    assert small == 4 * SIZE
    assert large > 4 * SIZE  # a single number is the result


def test_resources_of_a_jitted_function_and_of_a_compiled_one():
    x = jnp.ones(SIZE)
    function = jax.jit(lambda x: 2 * x)
    for program in (function, function.lower(x).compile()):
        found = resources(program, [x])
        assert (found.device_bytes, found.host_bytes) == (None, 4 * SIZE)


def allocator(*stats):
    rest = iter([dict(zip(("bytes_in_use", "peak_bytes_in_use"), each, strict=True)) for each in stats])
    return SimpleNamespace(memory_stats=lambda: next(rest))


def test_the_allocator_tells_more_only_at_a_new_peak_of_the_process():
    assert _grown_bytes(lambda: None, allocator((100, 200), (100, 450))) == 350
    assert _grown_bytes(lambda: None, allocator((100, 500), (100, 500))) is None
    assert _grown_bytes(lambda: None, SimpleNamespace(memory_stats=lambda: None)) is None
