"""Outputs that the source of a kernel never writes: a warning for each, and none for what may be written."""

# These kernels are wrong on purpose.
# ruff: noqa: F841, SIM108, B018

import linecache
import sys
import warnings

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest

from bridge import UnwrittenOutputWarning, XLACustomKernel, jax_kernel, numba_kernel
from bridge.source.unwritten import unwritten
from suites.backends.warp_blocks import wp
from suites.unit.bridge import kernels, warp_kernels

Spec = jax.ShapeDtypeStruct
X = jnp.arange(3.0)
OUT = Spec((3,), np.float32)


# Kernels that never write to `out`.


def empty(x, out):
    """Nothing."""


def rebinds(x, out):
    out = 2 * x


def rebinds_in_a_branch(x, out):
    if x[0] > 0:
        out = 2 * x
    else:
        out = 3 * x


def rebinds_among_others(x, out):
    y, out = x, x + 1


def rebinds_and_fills(x, out):
    n = x.size
    out = np.empty(n)
    for i in range(n):
        out[i] = x[i]


def rebinds_with_an_annotation(x, out):
    out: float = x[0]


def reads(x, out):
    total = 0.0
    for i in range(out.size):
        total += x[i] + out[i]
    y = out + 1
    z = -out[0] > y[0]


def asks_for_its_shape(x, out):
    n, m = out.shape[0], len(out)
    for i in range(out.size):
        y = x[i] + n + m + out.ndim


def writes_to_another(x, out):
    y = np.zeros(3)
    for i in range(3):
        y[i] = x[i]


def deletes(x, out):
    del out


NEVER = (
    empty, rebinds, rebinds_in_a_branch, rebinds_among_others, rebinds_and_fills, rebinds_with_an_annotation, reads,
    asks_for_its_shape, writes_to_another, deletes,
)  # fmt: skip


# Kernels that may write to it.


def element(x, out):
    out[0] = x[0]


def whole(x, out):
    out[:] = 2 * x


def everything(x, out):
    out[...] = x


def scalar(x, out):
    out[()] = x[0]


def augmented(x, out):
    out[0] += 1


def in_place(x, out):
    out += x


def in_a_loop(x, out):
    for i in range(out.size):
        if i % 2:
            out[i] = x[i]


def in_a_tuple(x, out):
    out[0], out[1] = x[0], x[1]


def in_a_while(x, out):
    i = 0
    while i < out.size:
        out[i] = i
        i += 1


def as_a_loop_variable(x, out):
    for out[0] in range(3):
        pass


def aliased(x, out):
    o = out
    o[0] = 1


def aliased_in_a_tuple(x, out):
    pair = (x, out)
    pair[1][0] = 1


def aliased_conditionally(x, out):
    target = x if x.size else out
    target[0] = 1


def of_rows(x, out):
    for row in out:
        row[0] = 1


def of_a_row(x, out):
    row = out[0]
    row[0] = 1


def of_an_element_of_a_row(x, out):
    out[0][1] = 1


def flat(x, out):
    out.flat[0] = 1


def transposed(x, out):
    out.T[0] = 1


def reshaped(x, out):
    view = out.reshape(-1)
    view[0] = 1


def rebinds_to_a_view(x, out):
    out = out[::2]
    out[0] = 1


def by_a_method(x, out):
    out.fill(1)


def by_a_helper(x, out):
    np.copyto(out, x)


def by_a_keyword(x, out):
    np.dot(x, x, out=out)


def by_unpacking(x, out):
    print(*(x, out))


def in_a_nested_function(x, out):
    def write(i):
        out[i] = x[i]

    write(0)


def in_a_comprehension(x, out):
    [out.fill(v) for v in x]


def through_its_memory(x, out):
    numba.carray(out.ctypes, 3)[0] = 1


def returned(x, out):
    return out


def of_its_own_name_later(x, out):
    out[0] = 1
    out = x


def conditionally_rebound(x, out):
    if x[0] > 0:
        out = x
    out[0] = 1


def with_a_default(x, out, y=1):
    out[0] = y


def only_raises(x, out):
    raise ValueError("not implemented")


def walrus(x, out):
    (o := out)[0] = 1


def attribute(x, out):
    out.value = 1


MAY = (
    element, whole, everything, scalar, augmented, in_place, in_a_loop, in_a_tuple, in_a_while, as_a_loop_variable,
    aliased, aliased_in_a_tuple, aliased_conditionally, of_rows, of_a_row, of_an_element_of_a_row, flat, transposed,
    reshaped, rebinds_to_a_view, by_a_method, by_a_helper, by_a_keyword, by_unpacking, in_a_nested_function,
    in_a_comprehension, through_its_memory, returned, of_its_own_name_later, conditionally_rebound, with_a_default,
    only_raises, walrus, attribute,
)  # fmt: skip


def named(function):
    return function.__name__


@pytest.mark.parametrize("function", NEVER, ids=named)
def test_what_never_writes_is_noticed(function):
    (found,) = unwritten(function.__code__, ("out",))
    assert found.parameter == "out"
    assert found.rebound == function.__name__.startswith("rebinds")


@pytest.mark.parametrize("function", MAY, ids=named)
def test_what_may_write_is_left_alone(function):
    assert unwritten(function.__code__, ("out",)) == ()


def test_a_parameter_that_another_one_is_named_after():
    def kernel(x, out, output):
        output[0] = x[0]

    assert [found.parameter for found in unwritten(kernel.__code__, ("out", "output"))] == ["out"]


def test_the_line_is_that_of_the_rebinding_or_of_the_function():
    first = rebinds.__code__.co_firstlineno
    assert unwritten(rebinds.__code__, ("out",))[0].line == first + 1
    assert unwritten(empty.__code__, ("out",))[0].line == empty.__code__.co_firstlineno


def test_a_function_without_source_is_left_alone():
    namespace = {}
    exec("def kernel(x, out): pass", namespace)
    assert unwritten(namespace["kernel"].__code__, ("out",)) == ()
    assert unwritten((lambda x, out: None).__code__, ("out",)) == ()


def test_a_function_whose_source_has_changed_is_left_alone(tmp_path):
    path = tmp_path / "changed.py"
    path.write_text("def kernel(x, out):\n    out[0] = 1\n")
    namespace = {}
    exec(compile(path.read_text(), str(path), "exec"), namespace)
    path.write_text("something = (\n    1,\n    2)\n")
    linecache.checkcache(str(path))
    assert unwritten(namespace["kernel"].__code__, ("out",)) == ()


class TestNumba:
    def test_the_warning_names_kernel_parameter_place_and_cure(self):
        kernel = numba.njit(rebinds)
        with pytest.warns(UnwrittenOutputWarning) as caught:
            numba_kernel(kernel, OUT)(X)
        (warning,) = caught
        line = rebinds.__code__.co_firstlineno + 1
        assert (warning.filename, warning.lineno) == (__file__, line)
        assert str(warning.message) == (
            f"rebinds ({__file__}:{line}) assigns to the variable 'out', which leaves the output array as it is: its "
            "result is whatever was in memory. Write to the elements, as out[...] = value or out[i] = value; or leave "
            "'out' out of the outputs."
        )

    def test_each_output_that_is_not_written(self):
        @numba.njit
        def kernel(x, a, b, c):
            b[0] = x[0]

        with pytest.warns(UnwrittenOutputWarning) as caught:
            numba_kernel(kernel, [OUT, OUT, OUT])(X)
        assert [f"output {name!r}" in str(w.message) for name, w in zip("ac", caught, strict=True)] == [True, True]
        assert "kernel (" in str(caught[0].message)
        assert "never writes to its output 'a'" in str(caught[0].message)

    def test_as_an_error_it_reaches_the_caller(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(UnwrittenOutputWarning, match="never writes"):
                jax.jit(numba_kernel(numba.njit(asks_for_its_shape), OUT))(X)

    def test_it_is_shown_once(self):
        @numba.njit
        def kernel(x, out):
            pass

        with warnings.catch_warnings(record=True) as shown:
            warnings.simplefilter("default")
            for size in (3, 4, 5):
                numba_kernel(kernel, lambda x: x)(jnp.zeros(size))
        assert len(shown) == 1

    def test_a_kernel_that_does_not_compile_is_told_that_first(self):
        @numba.njit
        def kernel(x, out):
            x.no_such

        with pytest.raises(TypeError, match="cannot compile kernel"):
            numba_kernel(kernel, OUT)(X)

    def test_outputs_that_need_not_be_written(self):
        @numba.njit
        def kernel(x, out):
            x[0] += 1

        numba_kernel(kernel, OUT, input_output_aliases={0: 0})(X)
        numba_kernel(numba.njit(empty), Spec((0,), np.float32))(X)
        numba_kernel(kernels.copy, OUT)(X)

    def test_outputs_among_any_number_of_arrays(self):
        @numba.njit
        def kernel(x, *arrays):
            arrays[0][0] = x[0]

        numba_kernel(kernel, [OUT])(X)

    def test_an_import_in_the_body_is_no_obstacle(self):
        @numba.njit
        def kernel(x, out):
            import math

            out = math.sqrt(x[0])

        with pytest.warns(UnwrittenOutputWarning, match="assigns to the variable 'out'"):
            numba_kernel(kernel, OUT)(X)

    def test_in_an_operator(self):
        op = XLACustomKernel("op", outs=lambda x: x)
        op.def_numba_kernel(lambda outs: numba_kernel(numba.njit(reads), outs[0]))
        with pytest.warns(UnwrittenOutputWarning, match="reads .*never writes"):
            op(X)


class TestWarp:
    def test_a_rebinding(self):
        @warp_kernels.forward_only
        def kernel(x: warp_kernels.VECTOR, out: warp_kernels.VECTOR):
            i = wp.tid()
            value = x[i] + out[i]

        with pytest.warns(UnwrittenOutputWarning, match=r"kernel \(.*test_unwritten\.py:\d+\) never writes .*'out'"):
            jax_kernel(kernel)(X)

    def test_one_of_two_outputs(self):
        @warp_kernels.forward_only
        def kernel(x: warp_kernels.VECTOR, low: warp_kernels.VECTOR, high: warp_kernels.VECTOR):
            wp.atomic_add(low, 0, x[wp.tid()])

        with pytest.warns(UnwrittenOutputWarning, match="never writes to its output 'high'"):
            jax_kernel(kernel, num_outputs=2)(X)
        jax_kernel(kernel, num_outputs=2, output_dims={"low": 1, "high": 0})(X)

    def test_what_a_function_writes(self):
        @wp.func
        def put(array: wp.array(dtype=float), i: int):
            array[i] = 1.0

        @warp_kernels.forward_only
        def kernel(x: warp_kernels.VECTOR, out: warp_kernels.VECTOR):
            put(out, wp.tid())

        np.testing.assert_array_equal(jax_kernel(kernel)(X)[0], np.ones(3))

    def test_an_in_out_argument_that_is_only_read(self):
        @warp_kernels.forward_only
        def kernel(x: warp_kernels.VECTOR, out: warp_kernels.VECTOR):
            i = wp.tid()
            out[i] = x[i] + 1.0

        jax_kernel(kernel, num_outputs=2, in_out_argnames=["x"])(X)


class TestNumbaCuda:
    def test_the_source_of_a_kernel_and_of_a_function_that_launches_some(self, monkeypatch):
        cuda = pytest.importorskip("numba.cuda", reason="numba-cuda is not installed")
        from bridge import numba_cuda_callable, numba_cuda_kernel
        from bridge.languages.native_code import NativeCode

        def launch(x, out, stream):
            print(x)

        for module in ("cuda_jit", "callables"):
            found = sys.modules[f"bridge.languages.numba_cuda.{module}"]
            monkeypatch.setattr(found, "require_cuda", lambda: None)
            # Without a GPU nothing is compiled; no result needs temporary memory.
            monkeypatch.setattr(NativeCode, "scratch", ())
            monkeypatch.setattr(NativeCode, "guarded", ())
        for wrapped, name in (
            (numba_cuda_kernel(cuda.jit(rebinds), OUT, launch_dims=3), "rebinds"),
            (numba_cuda_callable(launch, OUT), "launch"),
        ):
            with pytest.warns(UnwrittenOutputWarning, match=rf"^{name} \(.*test_unwritten\.py:\d+\) .*'out'"):
                wrapped.eval_shape(X)
        for kernel in MAY[:10]:
            numba_cuda_kernel(cuda.jit(kernel), OUT, launch_dims=3).eval_shape(X)
