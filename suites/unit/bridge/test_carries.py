"""Kernels that may work in place: when a loop or a donation makes use of it, and that results stay the same."""

import functools
import gc
import random

import jax
import jax.extend
import jax.numpy as jnp
import numba
import numpy as np
import pytest

import bridge
from bridge import numba_kernel
from bridge.ffi import carries

N = 16
SPEC = jax.ShapeDtypeStruct((N,), jnp.float32)
X = jnp.arange(1, N + 1, dtype=jnp.float32)
Y = jnp.linspace(-1, 1, N, dtype=jnp.float32)


@numba.njit
def mix(x, y, out):
    for i in range(out.size):
        out[i] = np.float32(0.5) * x[i] + y[i]


@numba.njit
def mirrored(x, y, out):
    for i in range(out.size):
        out[i] = x[i] + y[out.size - 1 - i]


@numba.njit
def both(x, y, a, b):
    for i in range(x.size):
        p, q = x[i], y[i]
        a[i] = p + np.float32(0.25) * q
        b[i] = q - np.float32(0.5) * p


@pytest.fixture(autouse=True)
def _small_arrays_too(monkeypatch):
    monkeypatch.setitem(carries.LEAST_BYTES, "cpu", 0)
    jax.clear_caches()
    yield
    jax.clear_caches()


MIX, APART = numba_kernel(mix, SPEC), numba_kernel(mix, SPEC, in_place=False)
BOTH, BOTH_APART = numba_kernel(both, [SPEC] * 2), numba_kernel(both, [SPEC] * 2, in_place=False)


def shared(function, *args, **options):
    """How many calls in a lowered program share memory with an operand."""
    lowered = jax.jit(function, **options).lower(*args)
    assert carries._OFFER not in lowered.as_text()
    assert carries._OFFERS.programs() == []
    return lowered.as_text().count("output_operand_alias<")


def copies(function, *args):
    """How many arrays of the size of x an optimised program copies inside of its loop."""
    text = jax.jit(function).lower(*args).compile().as_text()
    body = text[text.index("custom-call(") - 2000 : text.index("ENTRY")]
    return body.count(f"f32[{N}]{{0}} copy(")


def loop(call, turns=5):
    return lambda x, y: jax.lax.fori_loop(0, turns, lambda _, c: call(c, y), x)


def test_a_carry_is_updated_in_place_without_a_copy():
    assert shared(loop(MIX), X, Y) == 1
    assert copies(loop(MIX), X, Y) == 0
    assert copies(loop(APART), X, Y) == 1
    np.testing.assert_array_equal(jax.jit(loop(MIX))(X, Y), jax.jit(loop(APART))(X, Y))


@pytest.mark.parametrize("option", [False, None])
def test_a_small_array_is_not_shared_on_the_cpu(option, monkeypatch):
    monkeypatch.setitem(carries.LEAST_BYTES, "cpu", 4 * N + (0 if option is False else 1))
    assert shared(loop(numba_kernel(mix, SPEC, in_place=option)), X, Y) == 0


def scanned(call):
    return lambda x, y: jax.lax.scan(lambda c, _: (call(c, y), c.sum()), x, None, length=4)


def conditional(call):
    def step(state):
        turn, x, y = state
        return turn + 1, jax.lax.cond(turn > 1, lambda: call(x, y), lambda: x + y), y

    return lambda x, y: jax.lax.while_loop(lambda state: state[0] < 4, step, (0, x, y))[1]


def nested(call):
    inner = loop(call, 3)
    return lambda x, y: jax.lax.fori_loop(0, 2, lambda _, c: inner(c, y), x)


def pair(call):
    return lambda x, y: jax.lax.fori_loop(0, 3, lambda _, s: (call(s[0], s[1]), s[1] + 1), (x, y))


def lives_on(call):
    return lambda x, y: jax.lax.fori_loop(0, 3, lambda _, s: (call(s[0], y), s[0] + s[1]), (x, y))


def swapped(call):
    return lambda x, y: jax.lax.fori_loop(0, 3, lambda _, s: (s[1], call(s[0], s[1])), (x, y))


def twice(call):
    return lambda x, y: jax.lax.fori_loop(0, 3, lambda _, c: call(call(c, y), y), x)


def with_itself(call):
    return lambda x, y: jax.lax.fori_loop(0, 3, lambda _, c: call(c, c), x)


def kept_and_called(call):
    return lambda x, y: (loop(call)(x, y), call(x, y), x)


def constant(call):
    return lambda x, y: loop(call)(jnp.ones(N, jnp.float32), y) + call(jnp.ones(N, jnp.float32), y)


def batched(call):
    rows = jnp.stack([X, X + 1, X * 2])
    return lambda x, y: jax.vmap(loop(call), (0, None))(rows, y)


def of_derivatives(call):
    @jax.custom_vjp
    def function(x, y):
        return call(x, y)

    function.defvjp(lambda x, y: (call(x, y), None), lambda _, g: (np.float32(0.5) * g, g))
    return lambda x, y: jax.grad(
        lambda x: jax.lax.scan(lambda c, _: (function(c, y), None), x, None, length=3)[0].sum()
    )(x)


PROGRAMS = {
    "scan that also sums": (scanned, None),
    "in a branch": (conditional, None),
    "nested loops": (nested, 1),
    "two variables": (pair, 1),
    "the old value is used": (lives_on, 0),
    "swapped": (swapped, 0),
    "twice in a turn": (twice, 0),
    "one operand twice": (with_itself, 0),
    "also called elsewhere": (kept_and_called, 1),
    "constants": (constant, 1),
    "vmap": (batched, 1),
    "derivative": (of_derivatives, None),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_the_same_in_place(name):
    program, expected = PROGRAMS[name]
    if expected is not None:
        assert shared(program(MIX), X, Y) == expected
    x, y = X + 0, Y + 0
    jax.tree.map(np.testing.assert_array_equal, jax.jit(program(MIX))(x, y), jax.jit(program(APART))(x, y))
    np.testing.assert_array_equal(x, X)  # what the caller holds is unchanged
    np.testing.assert_array_equal(y, Y)


def test_two_variables_are_updated_by_one_call():
    def program(call):
        return lambda x, y: jax.lax.fori_loop(0, 5, lambda _, s: tuple(call(*s)), (x, y))

    assert shared(program(BOTH), X, Y) == 2
    jax.tree.map(np.testing.assert_array_equal, jax.jit(program(BOTH))(X, Y), jax.jit(program(BOTH_APART))(X, Y))


def test_results_that_swap_places_share_with_the_other_operand():
    def program(call):
        return lambda x, y: jax.lax.fori_loop(0, 5, lambda _, s: tuple(call(*s))[::-1], (x, y))

    assert shared(program(BOTH), X, Y) == 2
    jax.tree.map(np.testing.assert_array_equal, jax.jit(program(BOTH))(X, Y), jax.jit(program(BOTH_APART))(X, Y))


def test_a_donated_argument_is_updated_in_place_and_a_plain_one_is_not():
    assert shared(MIX, X, Y) == 0
    assert shared(MIX, X, Y, donate_argnums=0) == 1
    assert shared(lambda x, y: (MIX(x, y), x), X, Y, donate_argnums=0) == 0
    given = X + 0
    np.testing.assert_array_equal(jax.jit(MIX, donate_argnums=0)(given, Y), APART(X, Y))
    assert given.is_deleted()


def test_a_kernel_that_reads_other_elements_shares_nothing():
    call = numba_kernel(mirrored, SPEC)
    assert shared(loop(lambda c, y: call(y, c)), X, Y) == 0
    assert shared(loop(call), X, Y) == 1  # x is read element by element
    expected = functools.reduce(lambda c, _: c + Y[::-1], range(5), X)
    np.testing.assert_array_equal(jax.jit(loop(call))(X, Y), expected)


def test_merged_variables_are_not_overwritten():
    # XLA finds that both variables are always equal, and keeps one: then one operand is both inputs of the call.
    call = numba_kernel(mirrored, SPEC)

    def program(call):
        def step(_, s):
            return call(s[0], s[1]), call(s[0], s[1])

        return lambda x, y: jax.lax.fori_loop(0, 4, step, (x, x))

    apart = numba_kernel(mirrored, SPEC, in_place=False)
    jax.tree.map(np.testing.assert_array_equal, jax.jit(program(call))(X, Y), jax.jit(program(apart))(X, Y))


def test_a_program_that_is_exported_shares_too():
    exported = jax.export.export(jax.jit(loop(MIX)), disabled_checks=bridge.export_checks())(X, Y)
    assert exported.mlir_module().count("output_operand_alias<") == 1
    restored = jax.export.deserialize(exported.serialize())
    np.testing.assert_array_equal(restored.call(X, Y), loop(APART)(X, Y))


def test_lowering_that_fails_leaves_nothing_behind():
    @numba.njit
    def wrong(x, out):
        out[0] = x.nothing

    with pytest.raises(bridge.KernelCompileError):
        jax.jit(lambda x, y: numba_kernel(wrong, SPEC)(loop(MIX)(x, y))).lower(X, Y)
    assert shared(loop(MIX), X, Y) == 1


def test_a_program_whose_lowering_fails_is_not_kept():
    unknown = jax.extend.core.Primitive("without_a_lowering")
    unknown.def_abstract_eval(lambda x: x)
    for _ in range(3):
        with pytest.raises(NotImplementedError, match="without_a_lowering"):
            jax.jit(lambda x, y: unknown.bind(loop(MIX)(x, y))).lower(X, Y)
    gc.collect()
    assert carries._OFFERS.programs() == []


DRAWS = 12


@pytest.mark.parametrize("seed", range(DRAWS))
def test_drawn_loops_give_the_same_results(seed):
    """Loops with three variables, whose new values are calls, sums and old values, drawn at random."""
    draw = random.Random(seed)
    steps = [(draw.choice(("call", "both", "sum", "old")), draw.randrange(3), draw.randrange(3)) for _ in range(3)]
    turns, unroll = draw.randint(1, 4), draw.choice((1, 2))

    def program(mix_call, both_call):
        def value(kind, i, j, s):
            match kind:
                case "call":
                    return mix_call(s[i], s[j])
                case "both":
                    return both_call(s[i], s[j])[(i + j) % 2]
                case "sum":
                    return s[i] + s[j]
            return s[i]

        def body(s, _):
            return tuple(value(*step, s) for step in steps), s[0].sum()

        return lambda s: jax.lax.scan(body, s, None, length=turns, unroll=unroll)

    start = (X, Y, X - Y)
    found, expected = (
        jax.jit(program(*calls), donate_argnums=0)(jax.tree.map(jnp.copy, start))
        for calls in ((MIX, BOTH), (APART, BOTH_APART))
    )
    jax.tree.map(np.testing.assert_array_equal, found, expected)


@pytest.mark.parametrize("wrong", [1, "yes", {0: 0}])
def test_in_place_takes_a_bool(wrong):
    with pytest.raises(bridge.SignatureError, match=r"in_place is .*, expected True .* input_output_aliases"):
        numba_kernel(mix, SPEC, in_place=wrong)


def test_in_place_needs_an_output_of_the_type_of_an_input():
    call = numba_kernel(mix, jax.ShapeDtypeStruct((N,), jnp.float64), in_place=True)
    with (
        jax.enable_x64(True),
        pytest.raises(bridge.SignatureError, match=r"float64\[16\].*float32\[16\].*Leave in_place"),
    ):
        call(X, Y)
