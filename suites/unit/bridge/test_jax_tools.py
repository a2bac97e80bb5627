"""Checks that JAX's tools for debugging, profiling and ahead-of-time compilation work with kernels and operators."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest
import warp as wp

import bridge
from suites.unit.bridge.kernels import like
from suites.unit.processes import output

SPEC = jax.ShapeDtypeStruct((4,), np.float32)
X = jnp.arange(1.0, 5.0)
NEGATIVE, ZERO = X.at[1].set(-1.0), X.at[1].set(0.0)


@numba.njit
def numba_log(x, out):
    for i in range(x.size):
        out[i] = np.log(x[i])


@wp.kernel
def warp_log(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = wp.log(x[i])


def log_generator(outs):
    return bridge.numba_kernel(numba_log, outs[0])


def forward(x, outs):
    return OPERATOR(x), x


def backward(x, cotangents, outs):
    return (cotangents[0] / x,)


NUMBA = bridge.numba_kernel(numba_log, SPEC)
WARP = bridge.jax_kernel(warp_log)
OPERATOR = bridge.XLACustomKernel("operator_log", outs=like)
OPERATOR.def_numba_kernel(log_generator)
OPERATOR.def_vjp(forward, backward)

differentiable_numba = jax.custom_vjp(NUMBA)
differentiable_numba.defvjp(lambda x: (NUMBA(x), x), lambda x, g: (g / x,))


def first_of_warp(x):
    return WARP(x)[0]


class Subject(NamedTuple):
    """What a tool is tried on: functions of an array."""

    name: str
    call: Any
    differentiable: Any


SUBJECTS = {
    "numba": Subject("numba_log", NUMBA, differentiable_numba),
    "warp": Subject("warp_log", first_of_warp, first_of_warp),
    "operator": Subject("operator_log", OPERATOR, OPERATOR),
}


@pytest.fixture(params=SUBJECTS)
def subject(request):
    return SUBJECTS[request.param]


def not_jitted(function):
    def run(x):
        with jax.disable_jit():
            return function(x)

    return run


WAYS = {
    "eager": lambda subject: subject.call,
    "vmap": lambda subject: lambda x: jax.vmap(subject.call)(jnp.stack([x, x])),
    "jit of grad": lambda subject: jax.jit(jax.value_and_grad(lambda x: subject.differentiable(x).sum())),
    "disable_jit": lambda subject: not_jitted(subject.call),
}
"""How a subject is called, as a function of an array."""


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("mode", "kind", "bad", "other"),
    [(jax.debug_nans, "nan", NEGATIVE, X), (jax.debug_infs, "inf", ZERO, NEGATIVE)],
    ids=["nan", "inf"],
)
def test_the_kernel_is_named_that_made_an_invalid_result(subject, way, mode, kind, bad, other):
    function = WAYS[way](subject)
    with mode(True):
        with pytest.raises(FloatingPointError, match=rf"\({kind}\) encountered in {subject.name}"):
            function(bad)
        jax.block_until_ready(function(other))


def test_modes_that_may_make_an_error_change_no_right_result(subject):
    for way in ("eager", "vmap", "jit of grad", "disable_jit"):
        expected = WAYS[way](subject)(X)
        with (
            jax.checking_leaks(),
            jax.enable_checks(True),
            jax.numpy_rank_promotion("raise"),
            jax.numpy_dtype_promotion("strict"),
            bridge.debug_mode(),
        ):
            found = WAYS[way](subject)(X)
        jax.tree.map(np.testing.assert_array_equal, found, expected)


def test_a_call_transfers_nothing(subject):
    for function in (subject.call, jax.jit(lambda x: subject.call(x) + 1)):
        function(X)
        with jax.transfer_guard("disallow"):
            function(X)


def test_each_stage_names_the_call(subject):
    jitted = jax.jit(lambda x: subject.call(x) * 2)
    assert jax.eval_shape(jitted, SPEC) == SPEC
    assert subject.name in str(jax.make_jaxpr(jitted)(X))
    lowered = jitted.trace(X).lower()
    assert "_log" in lowered.as_text(debug_info=True)  # the kernel
    compiled = lowered.compile()
    assert all("bridge_cpu" in text for text in (lowered.as_text(), lowered.as_text(dialect="hlo"), compiled.as_text()))
    np.testing.assert_array_equal(compiled(X), jitted(X))


def program(x):
    """What another process runs: a call of each subject, all in one program."""
    return [each.call(x) for each in SUBJECTS.values()]


EXPECTED = str(np.log(np.arange(1.0, 5.0, dtype=np.float32)).round(3).tolist() * 3)
CACHED = """
import sys, jax, jax.numpy as jnp, numpy as np
from suites.unit.bridge.test_jax_tools import program
jax.config.update("jax_compilation_cache_dir", sys.argv[1])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
events = []
jax.monitoring.register_event_listener(lambda name, **_: events.append(name))
found = jax.jit(program)(jnp.arange(1.0, 5.0))
print(any("cache_hits" in event for event in events))
print(np.concatenate(found).round(3).tolist())
"""


def test_another_process_is_served_by_the_persistent_cache(tmp_path):
    for hit in ("False", "True"):
        assert output("-c", CACHED, tmp_path).splitlines()[-2:] == [hit, EXPECTED]
