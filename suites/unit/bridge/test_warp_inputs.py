"""jax_kernel: inputs do not change, whatever the kernel does, and a kernel that only reads them gets no copies."""

import contextlib
from types import MappingProxyType

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bridge import SignatureError, jax_kernel
from bridge.ffi.kernel_call import KERNEL_CALLS
from bridge.languages.warp.declared_uses import declare_reader, declare_writer
from bridge.languages.warp.generated import generated
from bridge.languages.warp.inputs import kernel_uses
from bridge.languages.warp.uses import READ, WRITE, Uses, uses_of
from suites.backends.warp import WARP, WARP_TILE
from suites.backends.warp_blocks import wp
from suites.cells.grid import grid
from suites.unit.bridge import warp_kernels as kernels

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
def row_of(rows: kernels.MATRIX, index: int):
    return rows[index]


@wp.func
def row_and_extent(rows: kernels.MATRIX, index: int):
    return rows[index], rows.shape[0]


@wp.func
def store_held(holder: Holder, value: float):
    holder.rows[0, 0] = value


@wp.func_native("""const_cast<float&>(rows.data[0]) = value;""")
def store_natively(rows: kernels.MATRIX, value: float): ...


@wp.func_native("""return rows.data[0];""")
def read_natively(rows: kernels.MATRIX) -> float: ...  # type: ignore[empty-body]


def row(x: kernels.MATRIX, out: kernels.VECTOR):
    i = wp.tid()
    row = x[i]
    row[0] = 100.0
    out[i] = row[1]


def alias(x: kernels.MATRIX, out: kernels.VECTOR):
    i = wp.tid()
    y = x
    y[i, 0] = 100.0
    out[i] = y[i, 1]


def slice_of_rows(x: kernels.MATRIX, out: kernels.VECTOR):
    i = wp.tid()
    y = x[1:3]
    y[0, i] = 100.0
    out[i] = y[1, i]


def called(x: kernels.MATRIX, out: kernels.VECTOR):
    i = wp.tid()
    store_into(x[i], 100.0)
    out[i] = x[i, 1]


def called_deeply(x: kernels.MATRIX, out: kernels.VECTOR):
    i = wp.tid()
    store_deeply(x, 100.0)
    out[i] = x[i, 1]


def result_of_a_call(x: kernels.MATRIX, out: kernels.VECTOR):
    i = wp.tid()
    y = row_of(x, i)
    y[0] = 100.0
    out[i] = y[1]


def one_of_two_results(x: kernels.MATRIX, out: kernels.VECTOR):
    i = wp.tid()
    y, n = row_and_extent(x, i)
    y[0] = 100.0
    out[i] = y[1] + 0.0 * float(n)


def either_array(x: kernels.MATRIX, out: kernels.VECTOR):
    i = wp.tid()
    y = x[0]
    if i > 1:
        y = x[1]
    y[i] = 100.0
    out[i] = x[i, 1]


def in_a_loop(x: kernels.MATRIX, out: kernels.VECTOR):
    i = wp.tid()
    y = x[0]
    for j in range(x.shape[0]):
        y[i] = 100.0
        y = x[j]
    out[i] = y[1]


def struct(x: kernels.MATRIX, out: kernels.VECTOR):
    i = wp.tid()
    holder = Holder()
    holder.rows = x
    holder.rows[0, i] = 100.0
    out[i] = x[i, 1]


def struct_in_a_call(x: kernels.MATRIX, out: kernels.VECTOR):
    i = wp.tid()
    holder = Holder()
    holder.rows = x
    store_held(holder, 100.0)
    out[i] = x[i, 1]


def pointer(x: kernels.MATRIX, out: kernels.VECTOR):
    i = wp.tid()
    y = wp.array(ptr=x.ptr, shape=(4,), dtype=float)
    y[i] = 100.0
    out[i] = x[i, 1]


def native(x: kernels.MATRIX, out: kernels.VECTOR):
    i = wp.tid()
    store_natively(x, 100.0)
    out[i] = x[i, 1]


def atomic(x: kernels.MATRIX, out: kernels.VECTOR):
    i = wp.tid()
    y = x[i]
    wp.atomic_add(y, 0, 100.0)
    out[i] = y[1]


def exchange(x: kernels.MATRIX, out: kernels.VECTOR):
    i = wp.tid()
    out[i] = wp.atomic_exch(x, i, 0, 100.0)


def tile(x: kernels.MATRIX, out: kernels.VECTOR):
    i = wp.tid()
    row = x[i]
    wp.tile_store(row, wp.tile_ones(shape=4, dtype=float))
    out[i] = 1.0


def augmented_row(x: kernels.MATRIX, out: kernels.VECTOR):
    i = wp.tid()
    row = x[i]
    row[0] += 100.0
    out[i] = row[1]


WRITING = [
    row, alias, slice_of_rows, called, called_deeply, result_of_a_call, one_of_two_results, either_array, in_a_loop,
    struct, struct_in_a_call, pointer, native, atomic, exchange, tile, augmented_row,
]  # fmt: skip


@pytest.mark.parametrize("function", WRITING)
@pytest.mark.parametrize("way", ["eager", "jit", "vmap", "donated elsewhere"])
def test_inputs_do_not_change(function, way):
    call = jax_kernel(kernels.forward_only(function), launch_dims=4)
    x = jnp.array(ROWS) if way != "vmap" else jnp.stack([ROWS, ROWS])
    before = np.array(x)
    run = {
        "eager": call,
        "jit": jax.jit(lambda x: (call(x), x + 1)),
        "vmap": jax.vmap(call),
        "donated elsewhere": jax.jit(lambda x: call(x)[0] + call(x)[0]),
    }[way]
    with contextlib.suppress(SignatureError):  # which a kernel that certainly writes gets
        jax.block_until_ready(run(x))
    np.testing.assert_array_equal(x, before)


def uncertain():
    """Kernels whose code does not show that it leaves the input alone; the last one does leave it alone."""

    def reads_natively(x: kernels.MATRIX, out: kernels.VECTOR):
        out[wp.tid()] = read_natively(x)

    return [(struct, 2.0), (pointer, 2.0), (native, 2.0), (reads_natively, 1.0)]


@pytest.mark.parametrize(("function", "first"), uncertain())
class TestCopies:
    def call(self, function):
        return jax_kernel(kernels.forward_only(function), launch_dims=4)

    def test_the_result_is_right(self, function, first):
        assert self.call(function)(ROWS)[0][0] == first

    def test_the_call_shares_the_copy_and_drops_it(self, function, first):
        call = self.call(function)
        lowered = jax.jit(call).lower(ROWS)
        assert "output_operand_aliases" in lowered.as_text()
        assert [(out.shape, out.dtype) for out in lowered.out_info] == [((4,), np.float32)]

    def test_every_element_of_a_batch_has_its_own(self, function, first):
        one = jnp.concatenate([ROWS[None], ROWS[None] + 16])
        outs = jax.vmap(self.call(function), in_axes=(0,))(one)[0]
        np.testing.assert_array_equal(outs[:, 0], [first, first + 16])

    def test_a_batch_of_something_else_copies_it_too(self, function, first):
        inner = self.call(function)
        outs = jax.vmap(lambda scale: inner(ROWS * scale)[0])(jnp.array([1.0, 2.0]))
        np.testing.assert_array_equal(outs[:, 0], [first, 2 * first])


class TestDeclaredFunctions:
    """C++ functions of which their author says how they use arrays."""

    def functions(self, text=""):
        """Functions whose text differs, so that Warp does not take the kernel of another test for the same one."""

        @wp.func_native(f"{text}\nreturn rows.data[i];\n", "\nadj_rows.data[i] += adj_ret;\n")
        def read(rows: kernels.VECTOR, i: int) -> float: ...  # type: ignore[empty-body]

        adjoint = "\nadj_other.data[i] += adj_rows.data[i];\n"

        @wp.func_native(f"{text}\nrows.data[i] = other.data[i];\n", adjoint, "\nreturn;\n")
        def write(rows: kernels.VECTOR, other: kernels.VECTOR, i: int): ...

        return read, write

    def uses(self, read, write):
        @wp.kernel(module="unique")
        def copy(x: kernels.VECTOR, y: kernels.VECTOR, out: kernels.VECTOR):
            i = wp.tid()
            if read(x, i) > 0.0:
                write(out, y, i)

        return kernel_uses(copy, ("cpu", "cuda"), None)

    def test_a_reader_does_not_write_and_a_writer_writes_to_its_first_array(self):
        read, write = self.functions()
        forward = self.uses(declare_reader(read), declare_writer(write)).forward
        assert [forward.unwritten(name) for name in ("x", "y", "out")] == [True, True, False]
        assert [forward.written(name) for name in ("x", "y", "out")] == [False, False, True]

    def test_their_adjoints_only_read(self):
        read, write = self.functions()
        backward = self.uses(declare_reader(read), declare_writer(write)).backward
        assert all(backward.unwritten(name) for name in ("x", "y", "out"))

    def test_others_may_do_anything(self):
        uses = self.uses(*self.functions("// undeclared"))
        assert not any(each.unwritten(name) for each in (uses.forward, uses.backward) for name in ("x", "y", "out"))

    def test_a_writer_without_a_replay_snippet_writes_again_in_the_adjoint(self):
        @wp.func_native("\nrows.data[0] = value;\n", "\n")
        def write_first(rows: kernels.VECTOR, value: float): ...

        declare_writer(write_first)

        @wp.kernel(module="unique")
        def first(x: kernels.VECTOR, out: kernels.VECTOR):
            write_first(out, x[wp.tid()])

        uses = kernel_uses(first, ("cpu", "cuda"), None)
        assert uses.backward.written("out")
        assert uses.backward.unwritten("x")

    def test_an_input_of_a_writer_is_refused(self):
        _, write = self.functions()
        declare_writer(write)

        @wp.kernel(module="unique", enable_backward=False)
        def overwrite(x: kernels.VECTOR, out: kernels.VECTOR):
            i = wp.tid()
            write(x, x, i)
            out[i] = x[i]

        with pytest.raises(SignatureError, match="writes to its input 'x'"):
            jax_kernel(overwrite)(ROWS[0])

    @pytest.mark.parametrize("declare", [declare_reader, declare_writer])
    def test_only_functions_in_cpp_can_be_declared(self, declare):
        with pytest.raises(TypeError, match=rf"{declare.__name__}: got .*row_of.*, expected what warp.func_native"):
            declare(row_of)

    def test_gradients_are_right_without_copies(self):
        read, write = self.functions()
        declare_reader(read)
        declare_writer(write)

        @wp.kernel(module="unique")
        def copy(x: kernels.VECTOR, y: kernels.VECTOR, out: kernels.VECTOR):
            i = wp.tid()
            if read(x, i) > 0.0:
                write(out, y, i)

        call = jax_kernel(copy, num_outputs=1, in_out_argnames=["out"])
        x, y = jnp.array([1.0, -1.0, 2.0]), jnp.array([3.0, 4.0, 5.0])
        result, pullback = jax.vjp(lambda y: call(x, y, jnp.zeros(3))[0], y)
        np.testing.assert_array_equal(result, [3, 0, 5])
        np.testing.assert_array_equal(pullback(jnp.array([1.0, 2.0, 3.0]))[0], [1, 0, 3])


def test_a_copy_has_no_derivative_where_the_outputs_have_none():
    def counts(x: kernels.VECTOR, out: wp.array(dtype=int)):
        out[wp.tid()] = int(read_first(x))

    call = jax_kernel(kernels.forward_only(counts))
    gradient = jax.grad(lambda x: (x * call(x)[0]).sum())(jnp.array([2.0, 3.0]))
    np.testing.assert_array_equal(gradient, [2, 2])


@wp.func_native("""return x.data[0];""")
def read_first(x: kernels.VECTOR) -> float: ...  # type: ignore[empty-body]


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


def reading(x: kernels.MATRIX, n: int, out: kernels.VECTOR):
    i = wp.tid()
    total = float(0.0)  # noqa: UP018 - a variable of Warp, not a constant
    rows = x
    row = row_of(rows, i)
    other, extent = row_and_extent(x, i)
    part = x[0:2]
    for j in range(x.shape[1]):
        if j < n and len(row) > 0:
            total += row[j] + other[j] + part[0, j]
    total += wp.tile_sum(wp.tile_load(x[i], shape=4))[0]
    out[i] = total + float(extent)


def test_a_kernel_that_only_reads_gets_no_copy():
    for backward in (False, True):
        kernel = wp.kernel(reading, enable_backward=backward, module="unique")
        uses = kernel_uses(kernel, ("cpu", "cuda"), None)
        assert uses.forward.unwritten("x")
        assert uses.backward.unwritten("x") is backward
        assert uses.forward.written("out")


def jaxprs_in(parameters):
    values = [value for each in parameters.values() for value in (each if isinstance(each, tuple | list) else [each])]
    return [getattr(value, "jaxpr", value) for value in values if hasattr(getattr(value, "jaxpr", value), "eqns")]


def calls_in(jaxpr):
    for equation in jaxpr.eqns:
        if equation.primitive in KERNEL_CALLS:
            yield equation.params["call"]
        for inner in jaxprs_in(equation.params):
            yield from calls_in(inner)


class TestText:
    """What is read from a source."""

    SOURCE = """
static wp::array_t<wp::float32> other_0(
    wp::array_t<wp::float32> var_a)
{
    BODY
}

void k_cuda_kernel_forward(
    wp::launch_bounds_t<1> dim,
    wp::array_t<wp::float32> var_x)
{
    wp::array_t<wp::float32> var_1;
    STATEMENT
}
"""

    def uses(self, statement, body="", opaque=(), declared=MappingProxyType({})):
        source = self.SOURCE.replace("STATEMENT", statement).replace("BODY", body)
        return uses_of(source, ["x"], opaque, declared, backward=False)

    @pytest.mark.parametrize("bounds", ["128", "128, 12"])
    def test_launch_bounds_are_no_parameters(self, bounds):
        begin = f'extern "C" __launch_bounds__({bounds}) __global__ void k_cuda'
        source = self.SOURCE.replace("void k_cuda", begin).replace("STATEMENT", "var_2 = wp::load(var_x);")
        assert uses_of(source, ["x"], (), {}, backward=False).unwritten("x")

    @pytest.mark.parametrize(
        "statement",
        [
            "var_2 = wp::load(var_x);",
            "var_1 = wp::view(var_x, var_0);\n    var_2 = wp::load(var_1);",
            "var_1 = &(var_x.shape);",
            "wp::adj_array_store(var_x, var_0, var_2, adj_x, adj_0, adj_2);",
            "// wp::array_store(var_x, var_0, var_2);",
            "var_3 = wp::tile_load<wp::tile_t<float, 4>>(var_x, wp::tile_coord(var_0));",
        ],
    )
    def test_reads(self, statement):
        assert self.uses(statement).unwritten("x")

    @pytest.mark.parametrize(
        "statement",
        [
            "wp::array_store(var_x, var_0, var_2);",
            "wp::store(&(wp::index(var_x, var_0).component_ref(var_1)), var_2);",
            "var_1 = var_x;\n    var_3 = wp::atomic_add(var_1, var_0, var_2);",
            "wp::array_store(var_4, var_0, var_2);\n    var_4 = wp::view(var_x, var_0);",
            "var_5 = &(wp::index(var_x, var_0));\n    wp::store(var_5, var_2);",
        ],
    )
    def test_writes(self, statement):
        uses = self.uses(statement)
        assert uses.written("x")
        assert not uses.unwritten("x")

    @pytest.mark.parametrize(
        "statement",
        [
            "var_1 = wp::a_function_to_come(var_x);",
            "wp::load(var_x, var_0);",
            "*var_x = var_1;",
            "var_x[0] = var_1;",
            "var_1.field = var_x;",
            "var_1 = &(var_x.data);",
            "auto& var_1 = wp::index(var_x, 0);",
            "if (var_x) {",
            "var_1 = wp::load(\n    var_x);",
            "var_1 = wp::load(var_x); *var_x = 1;",
            "var_1 = wp::load(wp::opened(var_x));",
            "undefined_0(var_x);",
            "wp::array_store(var_2, var_0, var_x);",
            "var_1 = (var_x);",
        ],
    )
    def test_whatever_is_not_known_is_not_shown_to_be_a_read(self, statement):
        uses = self.uses(statement)
        assert not uses.unwritten("x")
        assert not uses.written("x")

    @pytest.mark.parametrize("body", ["other_0(var_a);", "return wp::opened(var_a);", "var_1 = *var_a;"])
    def test_functions_of_unknown_effect(self, body):
        assert not self.uses("other_0(var_x);", body).unwritten("x")

    @pytest.mark.parametrize("body", ["return var_a;", "var_2 = wp::view(var_a, 0);\n    return var_2;"])
    def test_results_of_functions_lead_to_their_arguments(self, body):
        assert self.uses("var_1 = other_0(var_x);", body).unwritten("x")
        assert self.uses("var_1 = other_0(var_x);\n    wp::store(var_1, var_0);", body).written("x")

    def test_functions_that_their_user_wrote_in_cpp(self):
        assert self.uses("other_0(var_x);").unwritten("x")
        assert not self.uses("other_0(var_x);", opaque=["other_0"]).unwritten("x")
        assert not self.uses("adj_other_0(var_x);", opaque=["other_0"]).unwritten("x")

    def test_functions_of_declared_use(self):
        reader, writer = {"other_0": READ}, {"other_0": WRITE}
        opaque = ["other_0"]
        for name in ("other_0", "adj_other_0", "replay_other_0"):
            assert self.uses(f"{name}(var_x);", opaque=opaque, declared=reader).unwritten("x")
            assert self.uses(f"{name}(var_2, var_x);", opaque=opaque, declared=writer).unwritten("x")
            assert self.uses(f"{name}(var_x);", opaque=opaque, declared=writer).written("x") is (name == "other_0")
            assert not self.uses(f"{name}(var_x[0]);", opaque=opaque, declared=reader).unwritten("x")

    def test_a_parameter_that_the_source_does_not_have(self):
        assert not Uses({}).unwritten("x")
        assert not uses_of(self.SOURCE, ["y"], (), {}, backward=False).unwritten("y")
        assert not uses_of(self.SOURCE, ["x"], (), {}, backward=True).unwritten("x")
        assert not uses_of(self.SOURCE + self.SOURCE, ["x"], (), {}, backward=False).unwritten("x")


def test_the_kernels_of_the_operators_get_no_copies():
    cases = {
        (case.operator.name, case.backend.id, case.dtype): case
        for case in grid("cpu", lambda operator: (64,))
        if case.backend in (WARP, WARP_TILE)
    }
    assert len({name for name, *_ in cases}) >= 30
    with jax.enable_x64(True):
        for case in cases.values():
            inputs = case.inputs()
            function = case.operator.build(case.backend, inputs)
            traced = [jax.make_jaxpr(function)(*inputs)]
            if case.has_gradient:
                traced.append(jax.make_jaxpr(lambda *inputs, f=function: jax.vjp(f, *inputs)[1])(*inputs))
            calls = [call for jaxpr in traced for call in calls_in(jaxpr.jaxpr)]
            assert calls, case.id
            for call in calls:
                arguments, inputs_count = call.code.options.arguments, len(call.code.signature.inputs)
                used = {buffer for each in arguments for buffer in (each.buffer, each.adjoint)}
                # The kernel uses each result: none is the copy of an input.
                assert used >= {inputs_count + index for index in range(len(call.outputs))}, case.id


def test_generation_is_the_same_each_time():
    first, second = (generated(kernels.scale, "cpu", None) for _ in range(2))
    assert first.digest == second.digest
    assert first.kernel is not second.kernel
