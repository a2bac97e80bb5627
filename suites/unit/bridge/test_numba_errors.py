"""numba_kernel: what is wrong with a kernel, or goes wrong in it, reaches the caller with the place."""

import functools

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest

from bridge import KernelCompileError, KernelTypeError, SignatureError, jax_kernel, numba_kernel
from suites.kernels.warp.blocks import wp
from suites.unit.bridge import kernels, warp_kernels

Spec = jax.ShapeDtypeStruct
OUT = Spec((3,), np.float32)
X = jnp.arange(3.0)


def test_more_arrays_than_a_call_can_hold():
    @numba.njit
    def many(*arrays):
        arrays[-1][0] = arrays[0][0]

    with pytest.raises(SignatureError, match="many has 1025 arrays, expected at most 1024"):
        numba_kernel(many, OUT)(*[X] * 1024)
    assert not many.overloads  # it takes most of a minute to compile


def test_a_typing_error_names_the_kernel_and_the_line():
    @numba.njit
    def wrong(x, out):
        out[0] = x.no_such_attribute

    with pytest.raises(KernelCompileError, match=r"cannot compile wrong \(.*test_numba_errors\.py:\d+\)") as caught:
        jax.jit(lambda x: numba_kernel(wrong, OUT)(x))(X)
    assert "out[0] = x.no_such_attribute" in str(caught.value)
    assert "JAX array" not in str(caught.value)  # which is said of captured ones
    assert caught.value.__cause__ is not None


class TestScalars:
    """A scalar is an array of 0 dimensions in a kernel; one line says so where Numba's text has thirty."""

    @pytest.mark.parametrize(
        ("line", "operation"),
        [
            ("out[()] = len(range(n))", r"range\(readonly array\(int32, 0d, C\)\)"),
            ("out[0] = x[0]", r"setitem\(array\(float32, 0d, C\), "),
            ("for v in n: out[()] = v", "iteration over a 0-d array"),
        ],
    )
    def test_their_use_as_a_number_is_named_with_the_cure(self, line, operation):
        namespace = {"np": np}
        exec(compile(f"def use(x, n, out):\n {line}", __file__, "exec"), namespace)
        with pytest.raises(KernelCompileError, match=rf"compile use \(.*:( line \d+)? has {operation}") as caught:
            numba_kernel(numba.njit(namespace["use"]), Spec((), np.float32))(X, 3)
        assert str(caught.value).endswith("read its value as n[()], and write it as out[()] = value.")
        assert "\n" not in str(caught.value)

    def test_it_is_named_where_numba_colours_its_errors(self, monkeypatch):
        class Bold(type(numba.core.errors.termcolor())):
            def errmsg(self, msg):
                return f"\x1b[1m{msg}\x1b[0m"

            highlight = errmsg

        monkeypatch.setattr(numba.core.errors, "_termcolor_inst", Bold())
        self.test_their_use_as_a_number_is_named_with_the_cure("for v in n: out[()] = v", "iteration over a 0-d array")


def kernel_of(body, **names):
    exec(f"def kernel(x, out):\n {body}", names := {"np": np, **names})
    return numba.njit(names["kernel"])


NEVER_STORES = r"^kernel \(.*:\d+\) never stores to its output 'out': write out\[\.\.\."


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("out = 2 * x", NEVER_STORES),
        ("out = np.empty_like(x); out[:] = x", NEVER_STORES),
        ("for v in x: out = v", NEVER_STORES),
        ("y = 2 * x; y[0] = 1", NEVER_STORES),
        ("import math; out[0] = math.sin(x[0])", "Import modules outside of the kernel"),
        ("return x[0]", "kernel returns float32, .*Add an output parameter after"),
    ],
)
def test_a_body_that_cannot_be_right_is_refused_with_the_cure(body, message):
    with pytest.raises(KernelCompileError, match=message):
        numba_kernel(kernel_of(body), OUT)(X)


class TestStores:
    """Whatever may store to an output counts."""

    @staticmethod
    @numba.njit
    def helper(array, x):
        array[:] = 2 * x

    @pytest.mark.parametrize(
        "body",
        [
            "helper(out, x)",
            "out = out[::-1]; out[:] = 2 * x[::-1]",
            "if x.size > 5: out = np.empty_like(x)\n out[:] = 2 * x",
            "for k in range(2):\n  if k == 1: out = 1 * out\n  else: out[:] = 2 * x",
            "def inner(i): out[i] = 2 * x[i]\n for i in range(3): inner(i)",
        ],
    )
    def test_each_form(self, body):
        np.testing.assert_array_equal(numba_kernel(kernel_of(body, helper=self.helper), OUT)(X), 2 * X)

    def test_an_output_without_elements_needs_no_store(self):
        assert numba_kernel(kernel_of("x.sum()"), Spec((0,), np.float32))(X).size == 0


class Holder:
    @numba.njit
    def kernel(x, out):  # noqa: N805 - without @staticmethod, as users write it
        out[:] = x


@pytest.mark.parametrize(
    ("given", "cure"),
    [
        (lambda: Holder().kernel, r"It is bound to an instance, its first argument\. Put @staticmethod above"),
        (lambda: functools.partial(kernels.copy, out=None), r"Pass one that calls it, as numba\.njit\(lambda"),
    ],
)
def test_what_is_no_kernel_but_can_become_one_is_told_how(given, cure):
    with pytest.raises(KernelTypeError, match=rf"expected a function decorated with numba\.njit\. {cure}"):
        numba_kernel(given(), OUT)


def test_numba_without_its_compiler_is_told_from_a_missing_decorator(monkeypatch):
    for disabled, why in ((0, "Decorate it"), (1, "NUMBA_DISABLE_JIT=1 makes numba.njit return")):
        monkeypatch.setattr(numba.config, "DISABLE_JIT", disabled)
        with pytest.raises(KernelTypeError, match=rf"expected a function decorated with numba\.njit\. {why}"):
            numba_kernel(numba.njit(lambda x, out: None) if disabled else (lambda x, out: None), OUT)


class TestExceptions:
    reciprocal = staticmethod(numba_kernel(kernels.reciprocal, OUT))

    def test_the_next_call_works(self):
        for _ in range(3):
            with pytest.raises(jax.errors.JaxRuntimeError, match="reciprocal raised ZeroDivisionError: division by"):
                self.reciprocal(X).block_until_ready()
            np.testing.assert_array_equal(self.reciprocal(X + 1), 1 / np.float32([1, 2, 3]))

    def test_in_a_batch_the_failing_element_is_reported(self):
        xs = jnp.array([[1.0, 1, 1], [1, -7, 1], [1, 1, 1]])
        message = r"raised ValueError: \('negative input', -7\.0\) \(.*kernels\.py:\d+\)"
        with pytest.raises(jax.errors.JaxRuntimeError, match=message):
            jax.block_until_ready(jax.vmap(self.reciprocal)(xs))

    def test_a_long_message_arrives_whole(self):
        text = "∞" * 5000

        @numba.njit
        def fails(x, out):
            out[0] = x[0]
            raise RuntimeError(text)

        with pytest.raises(jax.errors.JaxRuntimeError, match=f"fails raised RuntimeError: {text} "):
            numba_kernel(fails, OUT)(X).block_until_ready()

    def test_missing_memory_has_a_code_of_its_own(self):
        @numba.njit(parallel=True)
        def exhausts(x, out):
            for i in numba.prange(x.size):
                out[i] = np.zeros(int(x[i]) << 54).size

        wrapped = numba_kernel(exhausts, OUT)
        with pytest.raises(jax.errors.JaxRuntimeError, match=r"^RESOURCE_EXHAUSTED: exhausts raised MemoryError"):
            wrapped(1 + X).block_until_ready()


# JAX arrays from the closure or the globals of a kernel: the error names the array, and the cure.


WEIGHTS = jnp.arange(1.0, 4.0)
HINT = "{} refers to the JAX array '{}', which compiled code cannot use. Make it a parameter of the kernel"


@numba.njit
def weighted(value, i):
    return value * WEIGHTS[i]


@numba.njit
def of_a_helper(x, out):
    for i in range(x.size):
        out[i] = weighted(x[i], i)


def closing_over(weights):
    @numba.njit
    def kernel(x, out):
        for i in range(x.size):
            out[i] = x[i] * weights[i]

    return numba_kernel(kernel, OUT)(X)


def warp_calling(scalar):
    @wp.func
    def weigh(value: float):
        return value * scalar

    @warp_kernels.forward_only
    def kernel(x: warp_kernels.VECTOR, out: warp_kernels.VECTOR):
        i = wp.tid()
        out[i] = weigh(x[i])

    return jax_kernel(kernel)(X)


CALLS = {
    "a helper": (lambda: numba_kernel(of_a_helper, OUT)(X), "weighted", "WEIGHTS"),
    "a traced array": (lambda: jax.jit(closing_over)(WEIGHTS), "kernel", "weights"),
    "warp": (lambda: warp_calling(jnp.float32(2)), "weigh", "scalar"),
}


@pytest.mark.parametrize(("call", "function", "name"), CALLS.values(), ids=CALLS)
def test_the_error_ends_with_the_array_and_the_cure(call, function, name):
    with pytest.raises(KernelCompileError, match="cannot compile") as caught:
        call()
    assert str(caught.value).splitlines()[-1].startswith(HINT.format(function, name))
