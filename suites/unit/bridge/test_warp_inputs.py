"""jax_kernel: inputs do not change, whatever the kernel does, and a kernel that only reads them gets no copies."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bridge import SignatureError, jax_kernel
from bridge.languages.warp.generated import generated
from bridge.languages.warp.inputs import UNKNOWN, declare_writes, only_read, uses_of
from suites.cells.grid import grid
from suites.kernels.warp.blocks import wp
from suites.unit.bridge import warp_kernels as kernels
from suites.unit.bridge.entries import calls_in

ROWS = jnp.arange(1.0, 17.0).reshape(4, 4)


@wp.struct
class Holder:
    rows: kernels.MATRIX
    count: int


@wp.func
def store_into(row: kernels.VECTOR, value: float):
    row[0] = value


@wp.func
def store_deeply(rows: kernels.MATRIX, value: float):
    store_into(rows[0], value)


@wp.func
def row_and_extent(rows: kernels.MATRIX, index: int):
    return rows[index], rows.shape[0]


@wp.func
def store_held(holder: Holder, value: float):
    holder.rows[0, 0] = value


@wp.func_native("""const_cast<float&>(rows.data[0]) = value;""")
def store_natively(rows: kernels.MATRIX, value: float): ...


def alias(x: kernels.MATRIX, out: kernels.VECTOR):
    y = x
    y[wp.tid(), 0] = 100.0


def called_deeply(x: kernels.MATRIX, out: kernels.VECTOR):
    store_deeply(x, 100.0)


def in_a_loop(x: kernels.MATRIX, out: kernels.VECTOR):
    y = out
    for j in range(x.shape[0]):
        y[wp.tid()] = 100.0
        if j > 1:
            y = x[j]


WRITES = (alias, called_deeply, in_a_loop)
"""Kernels whose code shows that they write to x."""


def struct(x: kernels.MATRIX, out: kernels.VECTOR):
    holder = Holder()
    holder.rows = x
    store_held(holder, 100.0)
    out[wp.tid()] = x[0, 0]


def native(x: kernels.MATRIX, out: kernels.VECTOR):
    store_natively(x, 100.0)
    out[wp.tid()] = x[0, 0]


MAY_WRITE = (struct, native)
"""Kernels whose code does not show that they leave x alone. They put 100 into their output."""


@pytest.mark.parametrize("function", WRITES)
def test_a_kernel_that_writes_to_an_input_is_refused(function):
    kernel = kernels.forward_only(function)
    message = rf"{function.__name__}\(x, out\): the kernel writes to its input 'x'.*in_out_argnames=\['x'\]"
    with pytest.raises(SignatureError, match=message):
        jax.eval_shape(jax_kernel(kernel, launch_dims=4), ROWS)
    jax.eval_shape(jax_kernel(kernel, num_outputs=2, in_out_argnames=["x"], launch_dims=4), ROWS)


@pytest.mark.parametrize("function", MAY_WRITE)
def test_a_kernel_that_may_write_to_an_input_gets_a_copy(function):
    call = jax_kernel(kernels.forward_only(function), launch_dims=4)
    both = jnp.stack([ROWS, ROWS])
    for x, run in ((ROWS, call), (ROWS, jax.jit(lambda x: [call(x)[0] + 0 * x[0]])), (both, jax.vmap(call))):
        before = np.array(x)
        assert np.all(np.asarray(run(x)[0])[..., 0] == 100)
        np.testing.assert_array_equal(x, before)
    lowered = jax.jit(call).lower(ROWS)
    assert "output_operand_aliases" in lowered.as_text()
    assert [(out.shape, out.dtype) for out in lowered.out_info] == [((4,), np.float32)]


def reading(x: kernels.MATRIX, n: int, out: kernels.VECTOR):
    i = wp.tid()
    total = float(0.0)  # noqa: UP018 - a variable of Warp, not a constant
    rows = x
    row, extent = row_and_extent(rows, i)
    part = x[0:2]
    for j in range(x.shape[1]):
        if j < n and len(row) > 0:
            total += row[j] + part[0, j]
    total += wp.tile_sum(wp.tile_load(x[i], shape=4))[0]
    out[i] = total + float(extent)


@pytest.mark.parametrize("platform", ["cpu", "cuda"])
def test_a_kernel_that_only_reads_gets_no_copy(platform):
    made = generated(wp.kernel(reading, module="unique"), platform, None)
    for backward in (False, True):
        uses = made.uses(backward=backward)
        assert only_read(uses["x"])
    assert made.uses(backward=False)["out"] == {"array_store"}


def test_the_adjoint_changes_neither_inputs_nor_results():
    """Warp's adjoint runs the functions that a kernel calls once more, and their stores too."""

    @wp.func
    def raise_first(out: kernels.VECTOR, value: float):
        out[0] = out[0] + value

    @wp.kernel(module="unique")
    def accumulate(x: kernels.VECTOR, total: kernels.VECTOR, out: kernels.VECTOR):
        i = wp.tid()
        raise_first(total, x[i])
        out[i] = 2.0 * x[i]

    call = jax_kernel(accumulate, num_outputs=2, in_out_argnames=["total"])
    x, total = jnp.arange(1.0, 4.0), jnp.array([5.0])
    results, pullback = jax.vjp(call, x, total)
    before = [np.array(each) for each in (x, total, *results)]
    for _ in range(2):
        jax.block_until_ready(pullback([jnp.ones(1), jnp.ones(3)]))
        for array, expected in zip((x, total, *results), before, strict=True):
            np.testing.assert_array_equal(array, expected)
    np.testing.assert_array_equal(results[0], [11])


class TestDeclaredFunctions:
    """C++ functions of which their author says what they write to."""

    @pytest.fixture
    def functions(self, request):
        text = f"// {request.node.name}\n"  # Warp takes kernels of one text for the same one

        @wp.func_native(text + "return rows.data[i];", "adj_rows.data[i] += adj_ret;")
        def read(rows: kernels.VECTOR, i: int) -> float: ...  # type: ignore[empty-body]

        @wp.func_native(text + "rows.data[i] = other.data[i];", "adj_other.data[i] += adj_rows.data[i];", "return;")
        def write(other: kernels.VECTOR, rows: kernels.VECTOR, i: int): ...

        return read, write

    def kernel(self, read, write):
        @wp.kernel(module="unique")
        def copy(x: kernels.VECTOR, y: kernels.VECTOR, out: kernels.VECTOR):
            i = wp.tid()
            if read(x, i) > 0.0:
                write(y, out, i)

        return copy

    @pytest.mark.parametrize("platform", ["cpu", "cuda"])
    def test_they_write_to_what_is_named_and_their_adjoints_to_nothing(self, functions, platform):
        read, write = functions
        for declared in (False, True):
            if declared:
                declare_writes(read)
                declare_writes(write, "rows")
            made = generated(self.kernel(read, write), platform, None)
            forward, backward = made.uses(backward=False), made.uses(backward=True)
            assert [only_read(forward[name]) for name in ("x", "y", "out")] == [declared, declared, False]
            assert [only_read(backward[name]) for name in ("x", "y", "out")] == [declared] * 3
            assert (forward["out"] == {"store"}) is declared


SOURCE = """
static wp::array_t<wp::float32> other_0(
    wp::array_t<wp::float32> var_a)
{
    BODY
}

extern "C" __launch_bounds__(128, 12) __global__ void k_cuda_kernel_forward(
    wp::launch_bounds_t<1> dim,
    wp::array_t<wp::float32> var_x)
{
    wp::array_t<wp::float32> var_1;
    STATEMENT
}
"""
UNCLEAR = [
    "var_1 = wp::a_function_to_come(var_x);",
    "*var_x = var_1;",
    "var_1 = &(var_x.data);",
    "var_1 = wp::load(var_x); *var_x = 1;",
    "var_1 = wp::load(wp::opened(var_x));",
    "undefined_0(var_x);",
]


class TestText:
    """What is read from a source."""

    def uses(self, statement, body="var_2 = wp::view(var_a, 0);\n    return var_2;", native=(), arrays=("x",)):
        source = SOURCE.replace("STATEMENT", statement).replace("BODY", body)
        return uses_of(source, arrays, dict.fromkeys(native), backward=False)

    @pytest.mark.parametrize("statement", UNCLEAR)
    def test_a_statement_of_unknown_effect(self, statement):
        assert self.uses(statement)["x"] >= UNKNOWN

    @pytest.mark.parametrize("body", ["other_0(var_a);", "return wp::opened(var_a);", "var_1 = *var_a;"])
    def test_functions_of_unknown_effect(self, body):
        assert self.uses("other_0(var_x);", body)["x"] >= UNKNOWN


def test_the_kernels_of_the_operators_get_no_copies():
    cases = {
        (case.operator.name, case.backend.id, case.dtype): case
        for case in grid("cpu", lambda operator: (64,))
        if case.backend.id in ("warp", "warp_tile")
    }
    assert len({name for name, *_ in cases}) > 20
    with jax.enable_x64(True):
        for case in cases.values():
            inputs = case.inputs()
            function = case.operator.build(case.backend, inputs)
            calls = calls_in(function, *inputs)
            if case.has_gradient:
                calls += calls_in(lambda *inputs, f=function: jax.vjp(f, *inputs)[1], *inputs)
            assert calls, case.id
            for call in calls:
                assert call.guards == 0, case.id
                arguments, inputs_count = call.options.arguments, len(call.signature.inputs)
                used = {buffer for each in arguments for buffer in (each.buffer, each.adjoint)}
                # The kernel uses each result: none is the copy of an input.
                assert used >= {inputs_count + index for index in range(len(call.outputs))}, case.id
