"""A kernel works in place only if the code that runs is the source that was read: names may have changed since."""

import importlib
import sys
import textwrap
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest
from numba import prange, types
from numba.core.compiler import Compiler

from bridge import numba_kernel
from bridge.ffi import carries
from bridge.languages.numba_cpu.source_rules import rules_of, source_of
from bridge.source import meanings
from bridge.source.element_wise import in_place_pairs
from bridge.source.meanings import LinkedMeanings, Meanings
from suites.unit import processes

READ = types.Array(types.float32, 1, "C", readonly=True)
WRITTEN = types.Array(types.float32, 1, "C")


def pairs(kernel, inputs=1, outputs=1):
    """What the source shows about the code of a kernel, which is compiled now unless it is already."""
    array_types = (READ,) * inputs + (WRITTEN,) * outputs
    kernel.compile(array_types)
    compiled = kernel.overloads[array_types]
    return in_place_pairs(source_of(kernel), [1] * len(array_types), inputs, rules_of(compiled))


def copying(get, **options):
    """A new kernel that copies elements by a function of the array and the index."""

    @numba.njit(**options)
    def copy(x, out):
        for i in range(x.size - 8):
            out[i] = get(x, i)

    return copy


def shifted(distance):
    """A function that reads a later element, and a function that changes how much later the source says it is."""

    @numba.njit
    def get(x, i):
        return x[i + distance]

    def change(value):
        nonlocal distance
        distance = value

    return get, change


DISTANCE = 0


@numba.njit
def by_global(x, i):
    return x[i + DISTANCE]


class TestNumbersThatHaveChanged:
    def test_a_helper_that_was_compiled_earlier(self):
        get, change = shifted(3)
        copying(get).compile((READ, WRITTEN))
        change(0)
        assert pairs(copying(get)) == set()

    def test_a_helper_that_is_compiled_now(self):
        get, change = shifted(3)
        change(0)
        kernel = copying(get)
        assert pairs(kernel) == {(0, 0)}
        change(3)
        assert pairs(kernel) == {(0, 0)}  # the code still has the older number

    def test_the_kernel_itself(self):
        distance = 3

        @numba.njit
        def copy(x, out):
            for i in range(x.size - 8):
                out[i] = x[i + distance]

        copy.compile((READ, WRITTEN))
        distance = 0
        assert pairs(copy) == set()

    def test_a_global(self, monkeypatch):
        monkeypatch.setitem(globals(), "DISTANCE", 2)
        copying(by_global).compile((READ, WRITTEN))
        monkeypatch.setitem(globals(), "DISTANCE", 0)
        assert pairs(copying(by_global)) == set()

    def test_an_attribute_of_a_module(self, tmp_path, monkeypatch):
        (tmp_path / "distances.py").write_text("AT = 3\n")
        monkeypatch.syspath_prepend(tmp_path)
        distances = importlib.import_module("distances")

        @numba.njit
        def get(x, i):
            return x[i + distances.AT]

        assert pairs(copying(get)) == set()
        distances.AT = 0
        assert pairs(copying(get)) == set()
        get.recompile()
        assert pairs(copying(get)) == {(0, 0)}
        del sys.modules["distances"]

    def test_a_function_that_has_another_name_now(self):
        safe, _ = shifted(0)
        get, _ = shifted(3)

        @numba.njit
        def copy(x, out):
            for i in range(x.size - 8):
                out[i] = get(x, i)

        copy.compile((READ, WRITTEN))
        get = safe
        assert pairs(copy) == set()

    def test_a_helper_that_is_compiled_again_while_older_code_calls_it(self):
        get, change = shifted(3)

        @numba.njit
        def through(x, i):
            return get(x, i)

        copying(through).compile((READ, WRITTEN))
        change(0)
        get.recompile()
        assert pairs(copying(get)) == {(0, 0)}

        @numba.njit
        def by_both(x, out):
            for i in range(x.size - 8):
                out[i] = get(x, i) + through(x, i)

        assert pairs(copying(through)) == set()
        assert pairs(by_both) == set()

    def test_another_body(self):
        def copy(x, out):
            for i in range(x.size - 8):
                out[i] = x[i]

        def move(x, out):
            for i in range(x.size - 8):
                out[i] = x[i + 3]

        kernel = numba.njit(move)
        kernel.compile((READ, WRITTEN))
        kernel.py_func.__code__ = copy.__code__
        assert pairs(kernel) == set()

    def test_names_that_change_while_the_code_is_compiled(self):
        names = {}
        exec("def use(): return kept, changed, removed, added", names)
        names |= {"kept": 1, "changed": 1, "removed": 1}
        before = Meanings.of(names["use"])
        names |= {"changed": 2, "added": 2}
        del names["removed"]
        assert before.agreeing(Meanings.of(names["use"])).names == {"kept": 1}


CACHED = """
import numba, sys
from numba import types
@numba.njit(cache=True)
def copy(x, out):
    for i in range(x.size - 8):
        out[i] = x[i + DISTANCE]
DISTANCE = int(sys.argv[1])
import bridge
from bridge.languages.numba_cpu.source_rules import rules_of, source_of
from bridge.source.element_wise import in_place_pairs
arrays = types.Array(types.float32, 1, "C", readonly=True), types.Array(types.float32, 1, "C")
copy.compile(arrays)
found = in_place_pairs(source_of(copy), [1, 1], 1, rules_of(copy.overloads[arrays]))
print(sum(copy.stats.cache_hits.values()), len(found))
"""

EARLIER = """
import numba
from numba import types
READ, WRITTEN = types.Array(types.float32, 1, "C", readonly=True), types.Array(types.float32, 1, "C")
@numba.njit
def get(x, i):
    return x[i + DISTANCE]
DISTANCE = 3
get.compile((READ, types.int64))
import bridge
DISTANCE = 0
@numba.njit
def copy(x, out):
    for i in range(x.size - 8):
        out[i] = get(x, i) + get(out, i)
copy.compile((READ, WRITTEN))
from bridge.languages.numba_cpu.source_rules import rules_of, source_of
from bridge.source.element_wise import in_place_pairs
print(len(in_place_pairs(source_of(copy), [1, 1], 1, rules_of(copy.overloads[READ, WRITTEN]))))
"""


def test_code_from_the_disk_cache_shows_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    program = tmp_path / "cached.py"
    program.write_text(textwrap.dedent(CACHED))
    assert processes.output(str(program), "3") == "0 0"
    assert processes.output(str(program), "0") == "1 0"  # the code has 3


def test_a_helper_of_which_a_part_was_compiled_before_the_bridge_was_imported_shows_nothing(tmp_path):
    program = tmp_path / "earlier.py"
    program.write_text(EARLIER)
    assert processes.output(str(program)) == "0"


@numba.njit("int64(uint8)")
def narrow_argument(i):
    return i


@numba.njit("uint8(int64)")
def narrow_result(i):
    return i


@numba.njit(locals={"k": numba.uint8})
def narrow_variable(i):
    k = i
    return k


OTHER_COMPILER = type("OtherCompiler", (Compiler,), {})
"""A compiler of the user's, which may change the code."""


def copies_by(number, size=600):
    """A kernel that copies elements, and the last element that it writes."""

    @numba.njit
    def copy(x, out):
        for i in range(x.size):
            out[number(i)] = x[number(i)] + 1

    out = np.zeros(size, np.float32)
    copy(np.zeros(size, np.float32), out)
    return copy, out.nonzero()[0].max()


class TestCodeThatIsNotItsSource:
    @pytest.mark.parametrize("number", [narrow_argument, narrow_result, narrow_variable], ids=lambda f: f.__name__)
    def test_a_helper_that_converts_numbers(self, number):
        kernel, last = copies_by(number)
        assert last == 255  # the source says 599
        assert pairs(kernel) == set()

    def test_a_helper_that_does_not(self):
        @numba.njit
        def number(i):
            return i

        kernel, last = copies_by(number)
        assert last == 599
        assert pairs(kernel) == {(0, 0)}

    def test_a_variable_of_the_kernel_that_converts_numbers(self):
        @numba.njit(locals={"k": numba.uint8})
        def copy(x, out):
            for i in range(x.size):
                k = i
                out[k] = x[k] + 1

        assert pairs(copy) == set()

    @pytest.mark.parametrize("options", [{"inline": "always"}, {"pipeline_class": OTHER_COMPILER}])
    def test_code_that_is_changed_on_the_way(self, options):
        @numba.njit(**options)
        def get(x, i):
            return x[i]

        assert pairs(copying(get)) == set()
        assert pairs(copying(shifted(0)[0], **options)) == set()


@numba.njit(parallel=True)
def exchanged(x, y, out, other):
    for i in prange(x.size):
        value = x[i]
        out[i] = y[i]
        other[i] = value


@numba.njit(parallel=True)
def exchanged_in_two_loops(x, y, out, other):
    for i in prange(x.size):
        other[i] = x[i]
    for i in prange(x.size):
        out[i] = y[i]


@numba.njit(parallel=True)
def delayed(x, y, out, other):
    for i in prange(x.size // 4):
        before = y[4 * i]
        for j in range(4):
            value = x[4 * i + j]
            out[4 * i + j] = before
            before = value
            other[4 * i + j] = value


@numba.njit(parallel=True)
def chosen_alike(x, y, out, other):
    for i in prange(x.size):
        value = x[i]
        out[i] = y[i] if value > 0 else y[i]  # noqa: RUF034 - the value is not needed
        other[i] = value


@numba.njit
def first(value, other):
    return other


@numba.njit(parallel=True)
def ignored(x, y, out, other):
    for i in prange(x.size):
        value = x[i]
        out[i] = first(value, y[i])
        other[i] = value


@numba.njit(parallel=True)
def needed(x, y, out, other):
    for i in prange(x.size):
        value = x[i]
        out[i] = y[i] + max(value, 0)
        other[i] = value


@numba.njit(parallel=True)
def needed_with_another_type(x, y, out, other):
    for i in prange(x.size):
        value = x[i]
        out[i] = np.float32(value) * y[i]
        other[i] = value


class TestArraysOfParallelLoops:
    """Numba tells LLVM that the arrays of a parallel loop do not overlap, so LLVM moves reads behind writes."""

    @pytest.mark.parametrize(
        "kernel",
        [exchanged, exchanged_in_two_loops, delayed, chosen_alike, ignored],
        ids=lambda kernel: kernel.__name__,
    )
    def test_an_element_that_may_be_read_after_it_is_written(self, kernel):
        assert (0, 0) not in pairs(kernel, 2, 2)
        # A kernel that is not parallel keeps the order.
        assert (0, 0) in pairs(numba.njit(kernel.py_func), 2, 2)

    @pytest.mark.parametrize("kernel", [needed, needed_with_another_type], ids=lambda kernel: kernel.__name__)
    def test_an_element_that_the_written_value_needs(self, kernel):
        assert (0, 0) in pairs(kernel, 2, 2)

    def test_results_in_a_loop_are_right(self, monkeypatch):
        monkeypatch.setitem(carries.LEAST_BYTES, "cpu", 0)
        size = 1 << 12
        out = jax.ShapeDtypeStruct((size,), jnp.float32)
        call = numba_kernel(exchanged, [out, out])

        def step(_, carry):
            x, y, total = carry
            x, before = call(x, y)
            return x, y + 1, total + before

        start = jnp.arange(size, dtype=jnp.float32), jnp.ones(size), jnp.zeros(size)
        x, _, total = jax.jit(lambda start: jax.lax.fori_loop(0, 3, step, start))(start)
        np.testing.assert_array_equal(x, np.full(size, 3))
        np.testing.assert_array_equal(total, np.arange(size) + 1 + 2)


def test_another_numba_whose_libraries_do_not_name_what_they_link_proves_nothing():
    def get(x, i):
        return x[i]

    library = SimpleNamespace(_bridge_meanings=[Meanings.of(get)])
    assert LinkedMeanings(library, is_known=lambda library: True).of(get) is None
    library._linking_libraries = ()
    assert LinkedMeanings(library, is_known=lambda library: True).of(get) is not None


def test_a_compiler_without_the_step_that_notes_meanings_is_left_as_it_is():
    compiler = SimpleNamespace(CompilerBase=type("CompilerBase", (), {}))
    meanings._note_meanings_in(compiler)
    assert not hasattr(compiler.CompilerBase, "_compile_core")
