"""Checks debug_mode for kernels that are called without an operator: its findings, and that it leaves no trace."""

import contextlib
import threading

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest

import bridge
from bridge import DebugError, cuda_raw_kernel, debug_mode, jax_kernel, numba_kernel
from bridge.debug.mode import kernel_modes
from suites.backends.warp_blocks import wp
from suites.unit import processes
from suites.unit.bridge import kernels, test_debug, warp_kernels
from suites.unit.bridge.test_debug import FAILED, FAULTS, OUT, X, only, operator, right, unfinished
from suites.unit.processes import output

quiet = test_debug.quiet
Spec = jax.ShapeDtypeStruct
WRONG = {check: fault for check, fault in FAULTS.items() if check != "reference"}
"""A wrong kernel and the text of the finding, by the check that finds it."""


def wrapped(kernel):
    return numba_kernel(kernel, OUT)


def scanned(call):
    return lambda x: jax.lax.scan(lambda carry, row: (carry, call(row)), 0, jnp.stack([x, x]))[1][1]


TRANSFORMS = {
    "eager": lambda call: call,
    "jit": jax.jit,
    "vmap": lambda call: lambda x: jax.vmap(call)(jnp.stack([x, x]))[1],
    "scan": scanned,
    "jit of vmap": lambda call: jax.jit(lambda x: jax.vmap(call)(jnp.stack([x, x]))[1]),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
class TestNumba:
    @pytest.mark.parametrize("check", WRONG)
    def test_a_fault_is_found(self, transform, check):
        kernel, message = WRONG[check]
        place = rf"{kernel.py_func.__name__} on cpu, called with float32\[(2, )?6\]: "
        with only(check), pytest.raises(FAILED, match=f"DebugError: {place}.*{message}"):
            jax.block_until_ready(TRANSFORMS[transform](wrapped(kernel))(X))

    def test_a_right_kernel_passes(self, transform):
        with debug_mode():
            np.testing.assert_array_equal(TRANSFORMS[transform](wrapped(right))(X), 2 * X)


@numba.njit
def writes_if_large(x, out):
    out[...] = x
    if x.size > 100:
        x.flat[0] = 0


class TestGuardedInputs:
    """The bridge gives a kernel that may write to an input a copy. That is no fault; writing to it is one."""

    @pytest.mark.parametrize("transform", TRANSFORMS)
    def test_a_kernel_that_does_not_write_passes(self, transform):
        with debug_mode():
            np.testing.assert_array_equal(TRANSFORMS[transform](wrapped(writes_if_large))(X), X)

    def test_a_kernel_that_writes_is_found_and_nothing_else(self):
        large = jnp.ones(200)
        with debug_mode(), pytest.raises(FAILED, match=r"changed 1 of 200 elements of its input 0") as caught:
            jax.block_until_ready(numba_kernel(writes_if_large, lambda x: x)(large))
        assert "NaN" not in str(caught.value)
        assert "did not write" not in str(caught.value)


class TestApart:
    """Only programs that are traced in the context have checks."""

    def test_calls_before_in_and_after_the_context(self):
        call = wrapped(unfinished)
        jax.block_until_ready(call(X))
        for _ in range(2):
            with only("outputs"), pytest.raises(FAILED, match="did not write 2 of 6"):
                jax.block_until_ready(call(X))
            jax.block_until_ready(call(X))
            jax.block_until_ready(jax.vmap(call)(X[None]))

    def test_a_program_keeps_the_checks_it_was_compiled_with(self):
        call = wrapped(unfinished)
        plain = jax.jit(lambda x: call(x))
        plain(X)
        with only("outputs"):
            checked = jax.jit(lambda x: call(x))
            with pytest.raises(FAILED, match="did not write"):
                jax.block_until_ready(checked(X))
            jax.block_until_ready(plain(X))
        with pytest.raises(FAILED, match="did not write"):
            jax.block_until_ready(checked(X))

    def test_the_innermost_context_counts(self):
        call = wrapped(unfinished)
        with only("outputs"):
            with debug_mode(outputs=False, inputs=False, reference=False, nan=False):
                jax.block_until_ready(call(X))
            with pytest.raises(FAILED, match="did not write"):
                jax.block_until_ready(call(X))
        assert not kernel_modes.current()

    def test_outside_of_the_context_nothing_is_added(self):
        call = wrapped(right)
        before = jax.jit(call).lower(X).as_text()
        with debug_mode():
            checked = jax.jit(call).lower(X).as_text()
        assert jax.jit(call).lower(X).as_text() == before
        assert jax.jit(jax_kernel(cubed)).lower(X).as_text().count("callback") == 0
        with debug_mode():
            assert jax.jit(jax_kernel(cubed)).lower(X).as_text().count("callback") > 0
        assert "poisoned" in checked
        assert "poisoned" not in before

    def test_a_reference_alone_checks_nothing(self):
        with debug_mode(outputs=False, inputs=False, nan=False):
            assert "callback" not in jax.jit(wrapped(right)).lower(X).as_text()

    def test_a_thread_that_calls_the_kernel_meanwhile_spoils_nothing(self):
        call = wrapped(unfinished)
        failures = []

        def run():
            try:
                jax.block_until_ready(call(X))
            except FAILED as error:
                failures.append(error)

        with only("outputs"):
            thread = threading.Thread(target=run)
            thread.start()
            thread.join()
            with pytest.raises(FAILED, match="did not write"):
                jax.block_until_ready(call(X))
        assert len(failures) == 1

    def test_export_says_why_it_cannot(self):
        with (
            debug_mode(),
            pytest.raises(DebugError, match=r"right: its checks call Python"),
        ):
            jax.export.export(jax.jit(wrapped(right)), platforms=("cpu",), disabled_checks=bridge.export_checks())(X)

    def test_the_variable_in_a_fresh_process(self):
        program = """
import jax, jax.numpy as jnp, numba
from bridge import numba_kernel

@numba.njit
def first(x, out):
    out[0] = x[0]

call = numba_kernel(first, lambda x: x)
jax.block_until_ready(call(jnp.ones(1)))
print("passed", flush=True)
jax.block_until_ready(call(jnp.ones(6)))
"""
        done = processes.run("-c", program, KERNEL_BRIDGE_DEBUG="outputs", JAX_PLATFORMS="cpu")
        assert (done.returncode, done.stdout) == (1, "passed\n")
        assert "first on cpu, called with float32[6]: the kernel first did not write 5 of 6 elements" in done.stderr


class TestOperators:
    """An operator checks its kernel itself, once."""

    def calls(self, program):
        text = jax.jit(program).lower(X).as_text()
        return text.count("bridge_cpu"), text.count("xla_ffi_python_cpu_callback")

    @pytest.mark.parametrize("check", ["outputs", "inputs", "nan"])
    def test_a_kernel_that_was_traced_without_it_is_not_checked_twice(self, check):
        with only(check):
            before = self.calls(operator(right).__call__)
            jax.block_until_ready(wrapped(right)(X))
            jax.block_until_ready(jax.vmap(wrapped(right))(X[None]))
            assert self.calls(operator(right).__call__) == before
            assert before[1] >= 1

    def test_both_in_one_program(self):
        op = operator(right)
        with only("outputs"):
            alone, plain = self.calls(op.__call__), self.calls(lambda x: wrapped(right)(x))
            both = self.calls(lambda x: (op(x), wrapped(right)(x)))
        assert both == (alone[0] + plain[0], alone[1] + plain[1])

    def test_a_kernel_is_checked_after_an_operator_ran_it(self):
        with only("outputs"):
            with pytest.raises(FAILED, match="DebugError: twice, backend numba"):
                jax.block_until_ready(operator(unfinished)(X))
            with pytest.raises(FAILED, match="DebugError: unfinished on cpu"):
                jax.block_until_ready(wrapped(unfinished)(X))

    def test_an_operator_whose_checks_are_off_has_none(self):
        """It was traced outside of the context, and is lowered in it."""
        traced = jax.jit(operator(right).__call__).trace(X)
        with debug_mode():
            assert "callback" not in traced.lower().as_text()


class TestCalls:
    def test_an_output_that_holds_an_input(self):
        call = numba_kernel(kernels.increment, OUT, input_output_aliases={0: 0})
        with debug_mode():
            np.testing.assert_array_equal(call(X), X + 1)
        np.testing.assert_array_equal(X, np.arange(1.0, 7.0))

    def test_a_nan_among_the_inputs_excuses_those_of_the_results(self):
        with only("nan"):
            jax.block_until_ready(wrapped(WRONG["nan"][0])(X.at[0].set(jnp.nan)))

    def test_several_outputs_and_empty_arrays(self):
        with debug_mode():
            product, total = numba_kernel(kernels.outer, lambda x, y: [Spec((x.size, x.size), x.dtype), y])(X, 1.0)
            np.testing.assert_array_equal(product, jnp.outer(X, X) + 1)
            assert total == product.sum()
            assert numba_kernel(kernels.fill, Spec((0,), np.float32))().shape == (0,)

    def test_on_several_devices_the_finding_is_raised_when_the_context_is_left(self):
        mesh = jax.make_mesh((8,), ("d",), axis_types=(jax.sharding.AxisType.Auto,), devices=jax.devices("cpu")[:8])
        spec = jax.sharding.PartitionSpec("d")
        program = jax.jit(jax.shard_map(wrapped(unfinished), mesh=mesh, in_specs=spec, out_specs=spec))
        with pytest.raises(DebugError, match=r"unfinished on cpu.*did not write 2 of 6"), only("outputs"):
            jax.block_until_ready(program(jnp.tile(X, 8)))

    def test_kernels_in_control_flow(self):
        with only("outputs"):
            program = jax.jit(lambda x: jax.lax.cond(x[0] > 0, wrapped(unfinished), lambda x: x, x))
            np.testing.assert_array_equal(program(-X), -X)
            with pytest.raises(FAILED, match="did not write"):
                jax.block_until_ready(program(X))

    def test_a_function_with_a_derivative_of_its_own(self):
        @jax.custom_vjp
        def double(x):
            return wrapped(right)(x)

        double.defvjp(lambda x: (wrapped(right)(x), None), lambda _, g: (wrapped(right)(g),))
        with debug_mode():
            np.testing.assert_array_equal(jax.grad(lambda x: double(x).sum())(X), np.full(6, 2))


@wp.kernel(module="unique")
def cubed(x: warp_kernels.VECTOR, out: warp_kernels.VECTOR):
    i = wp.tid()
    out[i] = x[i] * x[i] * x[i]


@wp.kernel(module="unique")
def rooted(x: warp_kernels.VECTOR, out: warp_kernels.VECTOR):
    """Its derivative is infinite at 0, and 0 times that is NaN."""
    i = wp.tid()
    out[i] = wp.sqrt(x[i])


@warp_kernels.forward_only
def halfway(x: warp_kernels.VECTOR, out: warp_kernels.VECTOR):
    i = wp.tid()
    if i < 3:
        out[i] = x[i]


@warp_kernels.forward_only
def invalid(x: warp_kernels.VECTOR, factor: float, out: warp_kernels.VECTOR):
    i = wp.tid()
    out[i] = wp.sqrt(-x[i] * factor)


class TestWarp:
    @pytest.mark.parametrize("transform", TRANSFORMS)
    def test_a_fault_is_found(self, transform):
        call = jax_kernel(halfway)
        jax.block_until_ready(call(X))
        expected = (
            r"DebugError: halfway on cpu, called with float32\[(2, )?6\]: the kernel halfway did not write \d+ of"
        )
        with only("outputs"), pytest.raises(FAILED, match=expected):
            jax.block_until_ready(TRANSFORMS[transform](lambda x: call(x)[0])(X))
        jax.block_until_ready(call(X))

    def test_of_values(self):
        with debug_mode(), pytest.raises(FAILED, match=r"invalid on cpu.*6 of 6 elements of output 0 .* are NaN"):
            jax.block_until_ready(jax_kernel(invalid)(X, 1.0))

    def test_derivatives_are_checked_too(self):
        call = jax_kernel(cubed)
        with debug_mode():
            gradient = jax.jit(jax.grad(lambda x: call(x)[0].sum()))
            np.testing.assert_allclose(gradient(X), 3 * X * X)
            batch = jax.vmap(jax.grad(lambda x: call(x)[0].sum()))(jnp.stack([X, 2 * X]))
            np.testing.assert_allclose(batch, 3 * jnp.stack([X, 2 * X]) ** 2)
            _, pullback = jax.vjp(lambda x: call(x)[0], X)
            text = gradient.lower(X).as_text()
        assert text.count("poisoned") >= 2
        np.testing.assert_allclose(pullback(X)[0], 3 * X**3)

    def test_an_adjoint_that_runs_after_the_context_is_checked(self):
        call = jax_kernel(rooted)
        with only("nan"):
            _, pullback = jax.vjp(lambda x: call(x)[0], jnp.zeros(6))
        with pytest.raises(FAILED, match=r"rooted \(adjoint\) on cpu, .* are NaN, and no input is"):
            jax.block_until_ready(pullback(jnp.zeros(6)))

    def test_in_out_arguments(self):
        call = jax_kernel(warp_kernels.increment, in_out_argnames=["x"])
        with debug_mode():
            np.testing.assert_array_equal(call(X)[0], X + 1)

    def test_a_call_with_side_effects_runs_once(self):
        call = jax_kernel(halfway, has_side_effect=True)
        with only("outputs"):
            jax.block_until_ready(call(X))


class TestCudaRaw:
    def test_the_call_carries_the_checks_to_where_it_is_lowered(self):
        pytest.importorskip("cuda.core", reason="cuda-core is not installed")
        call = cuda_raw_kernel('extern "C" __global__ void k(const float* x, float* out) {}', "k", OUT, launch_dims=6)

        def checks():
            (equation,) = jax.make_jaxpr(call)(X).eqns[0].params["jaxpr"].eqns
            return equation.params["call"].checks

        assert checks() is None
        with debug_mode():
            assert checks().mode.outputs
        assert checks() is None


def test_a_context_that_fails_is_left():
    with contextlib.suppress(ZeroDivisionError), debug_mode():
        raise ZeroDivisionError
    assert not kernel_modes.current()


LABELS = """
import re
import jax, jax.numpy as jnp, numpy as np
import bridge
from suites.unit.bridge import kernels
spec = jax.ShapeDtypeStruct((4,), np.float32)
call = bridge.numba_kernel(kernels.double, spec)
op = bridge.XLACustomKernel("op")
op.def_numba_kernel(lambda outs, **_: bridge.numba_kernel(kernels.double, outs[0]))
def program(x):
    return call(x), op(x, outs=spec, mode="a", sizes=(1, 2.5)), op(x, outs=spec, mode="b", sizes=frozenset({"a", "b"}))
with bridge.debug_mode():
    text = jax.jit(program).lower(jnp.arange(4.0)).as_text()
print(*sorted(set(re.findall("identity:([0-9a-f]+)", text))))
"""


def test_labels_are_the_same_in_every_process():
    found = [output("-c", LABELS, PYTHONHASHSEED=seed) for seed in ("1", "2")]
    assert found[0] == found[1]
    assert len(found[0].split()) == 3
