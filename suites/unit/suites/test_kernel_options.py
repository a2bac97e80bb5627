"""Kernels with options, wrappers that a user has in her hands, and updates in place are declared and checked."""

import functools

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest
import warp as wp

import bridge
from suites import (
    Backend,
    Gradient,
    Kernel,
    NumbaKernel,
    Operator,
    OperatorError,
    PallasKernel,
    WarpCallable,
    WarpKernel,
)
from suites.backends.wrapped import FixedLaunch, ThreadPerElement, launch_of
from suites.cells import catalogue
from suites.cells.case import Case
from suites.cells.tables import declared_cells
from suites.checks import (
    test_donate,
    test_eager,
    test_grad,
    test_grad_eager,
    test_in_place,
    test_jit,
    test_scan,
    test_vmap,
    test_vmap0,
    test_vmap_grad,
)
from suites.checks.judging.evidence import CheckFailed, Evidence
from suites.checks.register import checks


@numba.njit
def accumulate(acc, x, out):
    for i in range(out.size):
        acc[i] += x[i]  # out has the memory of acc


@numba.njit
def double(x, out):
    for i in range(x.size):
        out[i] = 2 * x[i]


@wp.kernel
def decay(state: wp.array(dtype=wp.float32), x: wp.array(dtype=wp.float32), spikes: wp.array(dtype=wp.float32)):
    i = wp.tid()
    state[i] = 0.5 * state[i] + x[i]
    spikes[i] = 2.0 * x[i]


@wp.kernel
def double_warp(x: wp.array(dtype=wp.float32), out: wp.array(dtype=wp.float32)):
    i = wp.tid()
    out[i] = 2.0 * x[i]


@wp.kernel(enable_backward=False)
def double_without_adjoint(x: wp.array(dtype=wp.float32), out: wp.array(dtype=wp.float32)):
    i = wp.tid()
    out[i] = 2.0 * x[i]


def _run(check, operator, backend, size=33, variant=None):
    evidence = Evidence()
    (test,) = (value for name, value in vars(check).items() if name.startswith("test_"))
    test(Case(operator, backend, "float32", size, "cpu", variant), evidence)
    assert evidence._count
    return evidence


def _accumulating(kernel=None):
    return Operator(
        name="accumulate",
        reference=lambda acc, x: acc + x,
        kernels={"numba": kernel or NumbaKernel(accumulate, input_output_aliases={0: 0})},
    )


def _doubling(kernel, backend="numba", **more):
    return Operator(name="double", reference=lambda x: 2 * x, kernels={backend: kernel}, dtypes="float32", **more)


def _struct(*shape):
    return jax.ShapeDtypeStruct(shape, np.float32)


class TestInPlace:
    @pytest.mark.parametrize("check", [test_eager, test_jit, test_scan, test_donate, test_in_place, test_vmap0])
    def test_a_numba_kernel_with_an_alias_is_a_function_of_values(self, check):
        _run(check, _accumulating(), Backend.NUMBA)

    @pytest.mark.parametrize("check", [test_eager, test_jit, test_scan, test_donate, test_in_place, test_vmap0])
    def test_so_is_a_warp_kernel_with_an_in_out_argument(self, check):
        operator = Operator(
            name="decay",
            reference=lambda state, x: (0.5 * state + x, 2 * x),
            kernels={"warp": WarpKernel(decay, {"in_out_argnames": ["state"]})},
            dtypes="float32",
        )
        inputs = operator.sample("float32", 3, 0)
        assert operator.kernel(Backend.WARP).aliases(inputs, operator.outputs(*inputs)) == {0: 0}
        _run(check, operator, Backend.WARP)

    def test_a_wrong_update_is_caught(self):
        @numba.njit
        def twice(acc, x, out):
            for i in range(out.size):
                out[i] = acc[i] + x[i]
                out[i] = acc[i] + x[i]  # acc has changed by now

        with pytest.raises(CheckFailed, match="first call: output 0"):
            _run(test_in_place, _accumulating(NumbaKernel(twice, {0: 0})), Backend.NUMBA)

    def test_only_kernels_in_place_have_cells(self, monkeypatch):
        operators = {"accumulate": _accumulating(), "double": _doubling(double)}
        monkeypatch.setattr("suites.cells.catalogue.operators", lambda: operators)
        assert [cell.id for cell in declared_cells.in_place("cpu")] == ["accumulate-numba-f32-33-cpu"]

    def test_aliases_that_make_no_sense_are_refused_at_once(self):
        with pytest.raises(ValueError, match="NumbaKernel: input_output_aliases is"):
            NumbaKernel(accumulate, input_output_aliases={0: "out"})


class TestWrappers:
    @pytest.mark.parametrize(
        "outs", [_struct(5), [_struct(7)], lambda x: _struct(*x.shape), lambda x: [_struct(*x.shape)]]
    )
    def test_a_wrapped_numba_kernel_serves_every_size(self, outs):
        operator = _doubling(bridge.numba_kernel(double, outs))
        for check in (test_eager, test_jit, test_scan, test_vmap0):
            _run(check, operator, Backend.NUMBA)
        _run(test_vmap, operator, Backend.NUMBA, variant="nested")

    def test_its_options_stay(self):
        wrapper = bridge.numba_kernel(accumulate, _struct(5), input_output_aliases={0: 0}, vmap_method="sequential")
        operator = _accumulating(wrapper)
        kernel = operator.kernel(Backend.NUMBA)
        assert kernel.aliases((), ()) == {0: 0}
        assert kernel.vmap_method == "sequential"
        _run(test_in_place, operator, Backend.NUMBA)

    def test_its_own_function_of_outputs_is_checked(self):
        operator = _doubling(bridge.numba_kernel(double, lambda x: _struct(*x.shape, 1)))
        with pytest.raises(CheckFailed, match=r"output 0 has shape \(33, 1\), expected \(33,\)"):
            _run(test_eager, operator, Backend.NUMBA)

    def test_a_wrapped_warp_kernel_serves_every_size(self):
        operator = _doubling(bridge.jax_kernel(double_warp), "warp")
        for check in (test_eager, test_jit, test_scan, test_grad, test_grad_eager, test_vmap_grad):
            _run(check, operator, Backend.WARP)

    @pytest.mark.parametrize(
        ("kernel", "has"),
        [
            (double_warp, True),
            (bridge.jax_kernel(double_warp), True),
            (double_without_adjoint, False),
            (bridge.jax_kernel(double_warp, enable_backward=False), False),
            (WarpKernel(double_warp, {"has_side_effect": True}), False),
            (WarpCallable(lambda inputs, outs: bridge.jax_kernel(double_warp), calls=1), False),
        ],
    )
    def test_a_warp_kernel_has_the_derivative_that_warp_generates(self, kernel, has):
        assert _doubling(kernel, "warp").has_gradient(Backend.WARP, "float32") is has

    def test_a_wrong_adjoint_is_caught_without_a_declaration(self):
        @wp.func
        def doubled(x: float):
            return 2.0 * x

        @wp.func_grad(doubled)
        def adj_doubled(x: float, adj_ret: float):
            wp.adjoint[x] += adj_ret

        @wp.kernel(module="unique")
        def wrong(x: wp.array(dtype=wp.float32), out: wp.array(dtype=wp.float32)):
            i = wp.tid()
            out[i] = doubled(x[i])

        operator = _doubling(wrong, "warp")
        _run(test_jit, operator, Backend.WARP)
        with pytest.raises(CheckFailed, match=r"derivative: output 0.*derivative of the reference is required"):
            _run(test_grad, operator, Backend.WARP)

    def test_a_fixed_launch_that_other_sizes_do_not_follow_from_is_refused(self):
        wrapper = bridge.jax_kernel(double_warp, launch_dims=5)
        with pytest.raises(
            OperatorError, match=r"double: kernels\['warp'\]: .* jax_kernel with launch_dims=5, .* suites.WarpKernel"
        ):
            _doubling(wrapper, "warp")
        arguments = {"kernel": None, "outs": _struct(4, 8), "grid": 2, "block": 16}
        with pytest.raises(OperatorError, match=r"32 elements with grid=2, block=16, .* suites.CudaKernel"):
            launch_of("numba_cuda_kernel", arguments, "CudaKernel(kernel, launch)")

    def test_launches_that_serve_all_sizes_do(self):
        launch = launch_of("f", {"outs": _struct(4, 8), "launch_dims": 32, "vmap_method": "sequential"}, "CudaKernel")
        assert isinstance(launch, ThreadPerElement)
        assert launch((), [_struct(7)]) == {"launch_dims": 7, "vmap_method": "sequential"}
        launch = launch_of("f", {"outs": lambda x: x, "grid": 2, "block": 16}, "CudaKernel")
        assert isinstance(launch, FixedLaunch)
        assert launch((), [_struct(7)]) == {"grid": 2, "block": 16}

    def test_a_wrapper_of_another_language_is_answered_with_its_backend(self):
        with pytest.raises(OperatorError, match="Declare it as 'numba'"):
            _doubling(bridge.numba_kernel(double, _struct(5)), "warp")

    def test_a_wrapper_is_no_reference(self):
        wrapper = bridge.numba_kernel(double, _struct(5))
        with pytest.raises(OperatorError, match=r"which calls a kernel of the bridge, .* nothing about itself"):
            Operator(name="double", reference=wrapper, kernels={"numba": double})


class TestResults:
    """What a backend's callable returns is put into a list."""

    @pytest.mark.parametrize(
        ("backend", "kernel"),
        [
            ("warp", WarpCallable(lambda inputs, outs: lambda x: bridge.jax_kernel(double_warp)(x)[0], calls=1)),
            ("pallas", PallasKernel(lambda inputs, outs: lambda x: 2 * x)),
            ("pallas", lambda x: {"a": 2 * x}),
        ],
    )
    def test_one_array_is_a_list_of_one(self, backend, kernel):
        operator = _doubling(kernel, backend)
        (own,) = operator.kernels
        found = operator.build(own, [_struct(3)])(jnp.ones(3, jnp.float32))
        assert isinstance(found, list)
        assert len(found) == 1
        _run(test_vmap0, operator, own)

    def test_so_is_that_of_a_kernel_class_of_a_user(self):
        class Mine(Kernel):
            def build(self, inputs, outs):
                return _twice

        call = Backend.JNP.build(Mine(), [_struct(3)])
        assert [array.shape for array in call(jnp.ones(3))] == [(3,)]
        assert Backend.JNP.build(Mine(), [_struct(3)]) is call  # JAX compiles it once

    def test_a_build_that_makes_no_function_is_named(self):
        class Mine(Kernel):
            def build(self, inputs, outs):
                return 3

        with pytest.raises(OperatorError, match="build of a kernel returned a int, expected a function of JAX arrays"):
            Backend.JNP.build(Mine(), [_struct(3)])

    def test_an_exception_of_build_names_the_backend(self):
        class Mine(Kernel):
            def build(self, inputs, outs):
                raise KeyError("lost")

        with pytest.raises(KeyError) as caught:
            Backend.JNP.build(Mine(), [_struct(3)])
        assert caught.value.__notes__ == ["(raised while the backend 'jnp' made a JAX callable of its kernel)"]


@functools.partial(jax.jit)
def _twice(x):
    return 2 * x


@wp.kernel
def length(x: wp.array(dtype=wp.float32), out: wp.array(dtype=wp.float32)):
    i = wp.tid()
    total = float(0.0)  # noqa: UP018 - a variable for Warp
    for _ in range(x.shape[0] - x.shape[0] + 2):
        total += x[i] * x[i]
    out[i] = wp.sqrt(total)


def test_a_wrong_adjoint_that_nobody_declared_is_reported_and_one_that_is_declared_is_wrong():
    def reference(x):
        return jnp.sqrt(2 * x * x)

    kernels = {"warp": length}
    assumed = Operator(name="length", reference=reference, kernels=kernels, dtypes="float32")
    _run(test_jit, assumed, Backend.WARP)
    for check in (test_grad, test_grad_eager, test_vmap_grad):
        with pytest.raises(pytest.skip.Exception, match=r"warp generates a wrong derivative, .* gradient=None"):
            _run(check, assumed, Backend.WARP)
    required = Operator(name="length", reference=reference, kernels=kernels, dtypes="float32", gradient=Gradient())
    with pytest.raises(CheckFailed, match="the derivative of the reference is required"):
        _run(test_grad, required, Backend.WARP)


def test_a_launch_that_raises_has_cells_all_the_same(monkeypatch):
    def options(inputs, outs):
        raise ValueError("no launch for this")

    operator = Operator(
        name="raises", reference=lambda x: 2 * x, kernels={"warp": WarpKernel(lambda dtype: None, options)}
    )
    monkeypatch.setattr(catalogue, "operators", lambda: {"raises": operator})
    for check in checks():
        check.cells.cells("cpu")
    with pytest.raises(ValueError, match=r"no launch for this\s\(raised while the backend 'warp'"):
        operator.build(Backend.WARP, operator.sample("float32", 3, 0))
