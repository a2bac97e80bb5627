"""What the source of a kernel shows: which outputs may have the memory of which inputs."""

import linecache

import numba
import numpy as np
import pytest
from numba import prange

from bridge.languages.launch_shape import LaunchShape
from bridge.languages.numba_cpu.source_rules import follow, source_of
from bridge.languages.warp.launch_spec import Argument, Spec
from bridge.languages.warp.thread_counts import in_place_pairs_of
from bridge.source.affine import Access, Affine, Counter, are_apart
from bridge.source.element_wise import in_place_pairs
from bridge.source.language_rules import LanguageRules, Source
from bridge.source.meanings import Meanings
from suites.backends.numba_cuda import load, store, tile
from suites.backends.numba_cuda_vectors import first_neighbour, neighbours, store_neighbours
from suites.ops.lif_step import lif_step_cuda, lif_step_parallel, lif_step_warp

CPU = LanguageRules(follow=follow)


@numba.njit
def through_a_function(x, out):
    copy_all(x, out, out.size)


@numba.njit
def copy_all(source, target, count):
    for i in range(count):
        target[i] = source[i]


@numba.njit(parallel=True)
def in_parallel(x, out):
    for i in prange(x.size):
        value = x[i]
        if value > 0:
            out[i] = value
        else:
            out[i] = -value


@numba.njit
def two_dimensions(x, out):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            out[i, j] = x[i, j] + 1


@numba.njit
def in_tiles(x, out):
    for first in range(0, len(x), 4):
        for part in range(4):
            out[first + part] = x[first + part]


@numba.njit
def reads_all_first(x, out):
    total = 0.0
    for i in range(x.size):
        total += x[i]
    for i in range(out.size):
        out[i] = total


@numba.njit
def by_while(x, out):
    i = 0
    while i < x.size:
        out[i] = x[i]
        i += 1


@numba.njit
def in_tiles_by_while(x, out):
    for first in range(0, x.size, 4):
        i = first
        stop = min(i + 4, x.size)
        while i < stop:
            out[i] = x[i] + 1
            i += 1


SAFE = [through_a_function, in_parallel, two_dimensions, in_tiles, reads_all_first, by_while, in_tiles_by_while]


@numba.njit
def neighbour(x, out):
    for i in range(x.size - 1):
        out[i] = x[i + 1]


@numba.njit
def reversed_order(x, out):
    for i in range(x.size):
        out[x.size - 1 - i] = x[i]


@numba.njit
def reads_late(x, out):
    for i in range(x.size):
        out[i] = 1
        out[i] += x[i]


@numba.njit
def reads_late_in_a_branch(x, out):
    for i in range(x.size):
        if i % 2:
            out[i] = 1
        else:
            out[i] = 2
        out[i] += x[i]


@numba.njit
def again(x, out):
    for _ in range(3):
        for i in range(x.size):
            out[i] = x[i] + 1


@numba.njit
def in_two_passes(x, out):
    for i in range(x.size):
        out[i] = x[i] + 1
    for i in range(x.size):
        out[i] = x[i] + 2


@numba.njit
def overlapping_tiles(x, out):
    for first in range(0, x.size, 4):
        for part in range(5):
            out[first + part] = x[first + part]


@numba.njit
def transposed(x, out):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            out[i, j] = x[j, i]


@numba.njit
def diagonal(x, out):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            out[i, i] = x[i, i] + j


@numba.njit
def one_element(x, out):
    for _ in range(x.size):
        out[0] = x[0] + 1


@numba.njit
def gathered(x, out):
    for i in range(x.size):
        out[i] = x[int(x[i])]


@numba.njit
def from_the_end(x, out):
    for i in range(-2, x.size):
        out[i] = x[i]


@numba.njit
def other_name(x, out):
    y = x
    for i in range(x.size):
        out[i] = 0
        out[i] = y[i]


@numba.njit
def view(x, out):
    tail = x[1:]
    for i in range(tail.size):
        out[i] = tail[i]


@numba.njit
def row_view(x, out):
    for i in range(x.shape[0]):
        row = x[0]
        for j in range(x.shape[1]):
            out[i, j] = row[j]


@numba.njit
def whole_array(x, out):
    out[:] = x[::-1]


@numba.njit
def through_a_tuple(x, out):
    pair = (x, out)
    for i in range(x.size):
        pair[1][i] = 0
        pair[1][i] = pair[0][i]


@numba.njit
def changed_index(x, out):
    for i in range(x.size):
        j = i
        if x[i] > 0:
            j = 0
        out[j] = x[i]


@numba.njit
def moved_on_twice(x, out):
    i = 0
    while i < x.size:
        out[i] = x[i]
        i += 1
        if i < 0:
            i = 0
        i += 1


@numba.njit
def by_numpy(x, out):
    np.add(x, np.sum(x), out)


@numba.njit
def swapped_names(x, out):
    source, target = x, out
    for i in range(x.size):
        target[i] = source[i]
        source, target = target, source


@numba.njit
def first_active(flags):
    for k in range(flags.size):
        if flags[k] > 0:
            return k
    raise ValueError("no flag is set")


@numba.njit
def moved_by_a_result(x, out):
    flags = np.zeros(4)
    flags[2] = 1
    for i in range(out.size - 3):
        out[i + first_active(flags)] = x[i]


@numba.njit
def index_from_a_function(x, out):
    for i in range(out.size - 3):
        out[i + fourth()] = x[i]


@numba.njit
def fourth():
    for k in range(10):
        if k > 2:
            return k
    raise ValueError("10 is more than 2")


@numba.njit
def loop_that_goes_on(x, out):
    for first in range(0, x.size, 4):
        i = first
        stop = min(i + 4, x.size)
        while i < stop:
            value = x[i]
            out[i] = value + 1
            stop += 1
            i += 1


UNSAFE = [
    neighbour, reversed_order, reads_late, reads_late_in_a_branch, again, in_two_passes, overlapping_tiles, transposed,
    diagonal, one_element, gathered, from_the_end, other_name, view, row_view, whole_array, through_a_tuple,
    changed_index, moved_on_twice, by_numpy, swapped_names, moved_by_a_result, index_from_a_function,
    loop_that_goes_on,
]  # fmt: skip


def pairs(kernel):
    rank = 2 if "shape[1]" in "".join(linecache.getlines(__file__)[kernel.py_func.__code__.co_firstlineno :][:6]) else 1
    return in_place_pairs(source_of(kernel), [rank, rank], 1, CPU)


@pytest.mark.parametrize("kernel", SAFE, ids=lambda kernel: kernel.__name__)
def test_a_kernel_may_work_in_place(kernel):
    assert pairs(kernel) == {(0, 0)}


@pytest.mark.parametrize("kernel", UNSAFE, ids=lambda kernel: kernel.__name__)
def test_a_kernel_may_not_work_in_place(kernel):
    assert pairs(kernel) == set()


def test_only_arrays_that_are_used_element_by_element_may_be_overwritten():
    rank = [1] * 8
    found = in_place_pairs(source_of(lif_step_parallel), rank, 6, CPU)
    assert {(0, 0), (1, 0)} <= found


def test_source_that_has_changed_since_shows_nothing(tmp_path):
    path = tmp_path / "kernels.py"
    path.write_text("def copy(x, out):\n    for i in range(x.size):\n        out[i] = x[i + 1]\n")
    namespace = {}
    exec(compile(path.read_text(), str(path), "exec"), namespace)
    path.write_text("def copy(x, out):\n    for i in range(x.size):\n        out[i] = x[i]\n")
    assert in_place_pairs(Source(namespace["copy"]), [1, 1], 1, CPU) == set()
    fresh = {}
    exec(compile(path.read_text(), str(path), "exec"), fresh)
    assert in_place_pairs(Source(fresh["copy"]), [1, 1], 1, CPU) == {(0, 0)}


def test_a_function_without_source_shows_nothing():
    namespace = {}
    exec("def copy(x, out):\n    for i in range(x.size):\n        out[i] = x[i]\n", namespace)
    assert in_place_pairs(Source(namespace["copy"]), [1, 1], 1, CPU) == set()


class TestNumbaCuda:
    cuda = pytest.importorskip("numba.cuda", reason="numba-cuda is not installed")

    @classmethod
    def pairs(cls, kernel, grid=(4, 1, 1), block=(32, 1, 1), rank=1):
        from bridge.languages.numba_cuda.thread_numbers import launch_rules

        return in_place_pairs(Source(kernel), [rank, rank], 1, launch_rules(LaunchShape(grid, block)))

    def test_a_thread_for_each_element(self):
        cuda = self.cuda

        def kernel(x, out):
            i = cuda.grid(1)
            if i < x.size:
                out[i] = x[i]

        assert self.pairs(kernel) == {(0, 0)}
        assert self.pairs(kernel, block=(32, 2, 1)) == set()  # two threads share each element
        assert self.pairs(kernel, grid=(4, 1, 3)) == set()

    def test_the_index_in_its_parts(self):
        cuda = self.cuda

        def kernel(x, out):
            i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
            if i >= out.size:
                return
            out[i] = x[i]

        def in_a_block(x, out):
            i = cuda.threadIdx.x
            out[i] = x[i]

        assert self.pairs(kernel) == {(0, 0)}
        assert self.pairs(in_a_block) == set()
        assert self.pairs(in_a_block, grid=(1, 1, 1)) == {(0, 0)}

    def test_a_grid_that_is_crossed_in_strides(self):
        cuda = self.cuda

        def kernel(x, out):
            for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
                out[i] = x[i]

        def too_short(x, out):
            for i in range(cuda.grid(1), x.size, cuda.blockDim.x):
                out[i] = x[i]

        assert self.pairs(kernel) == {(0, 0)}
        assert self.pairs(too_short) == set()

    def test_two_dimensions(self):
        cuda = self.cuda

        def kernel(x, out):
            i, j = cuda.grid(2)
            if i < x.shape[0] and j < x.shape[1]:
                out[i, j] = x[i, j]

        assert self.pairs(kernel, (4, 4, 1), (8, 8, 1), 2) == {(0, 0)}
        assert self.pairs(kernel, (4, 4, 2), (8, 8, 1), 2) == set()

    def test_tiles_of_loads_and_their_rest(self):
        cuda = self.cuda

        def kernel(x, out):
            i, step, full = tile(out.size)
            if full:
                store(out, i, step, load(x, i, step))
            else:
                while i < np.uint64(out.size):
                    out[i] = x[i]
                    i += step

        def stores_first(x, out):
            i, step, full = tile(out.size)
            if full:
                store(out, i, step, load(x, i, step))
                store(out, i, step, load(x, i, step))

        def overlapping(x, out):
            i = np.uint64(cuda.grid(1))
            store(out, i, np.uint64(1), load(x, i, np.uint64(1)))

        assert self.pairs(kernel, block=(256, 1, 1)) == {(0, 0)}
        assert self.pairs(stores_first, block=(256, 1, 1)) == set()
        assert self.pairs(overlapping) == set()

    def test_vectors_of_neighbours(self):
        def kernel(x, out):
            i = first_neighbour()
            store_neighbours(out, i, neighbours(x, i))

        def stores_first(x, out):
            i = first_neighbour()
            store_neighbours(out, i, neighbours(x, i))
            store_neighbours(out, i, neighbours(x, i))

        def overlapping(x, out):
            i = first_neighbour()
            store_neighbours(out, i, neighbours(x, i + np.uint64(1)))

        assert self.pairs(kernel) == {(0, 0)}
        assert self.pairs(stores_first) == set()
        assert self.pairs(overlapping) == set()

    def test_vectors_of_neighbours_and_their_rest(self):
        from bridge.languages.numba_cuda.thread_numbers import launch_rules

        found = in_place_pairs(
            Source(lif_step_cuda.py_func), [1] * 8, 6, launch_rules(LaunchShape((4, 1, 1), (256, 1, 1)))
        )
        assert found == {(i, o) for i in (0, 1) for o in (0, 1)}

    def test_sums_over_a_block(self):
        cuda = self.cuda

        def kernel(x, out):
            i = cuda.grid(1)
            cuda.atomic.add(out, i, x[i])

        assert self.pairs(kernel) == set()


class TestWarp:
    pytest.importorskip("warp", reason="Warp is not installed")

    def pairs(self, function, dims=(64,), ranks=(1, 1), backward=False):
        arguments = tuple(Argument("float32", (), (8,) * rank, buffer) for buffer, rank in enumerate(ranks))
        return in_place_pairs_of(Meanings.of(function), Spec(dims, None, backward, arguments), len(ranks) - 1)

    def test_a_thread_for_each_element(self):
        kernel = lif_step_warp("float32").func
        ranks = (1,) * 8
        arguments = tuple(Argument("float32", (), (8,) * rank, buffer) for buffer, rank in enumerate(ranks))
        found = in_place_pairs_of(Meanings.of(kernel), Spec((64,), None, False, arguments), 6)
        assert found == {(i, o) for i in (0, 1) for o in (0, 1)}
        assert in_place_pairs_of(Meanings.of(kernel), Spec((64,), None, True, arguments), 6) == set()

    def test_another_number_of_dimensions(self):
        import warp as wp

        def kernel(x, out):
            i, j = wp.tid()
            out[i, j] = x[i, j]

        assert self.pairs(kernel, (8, 8), (2, 2)) == {(0, 0)}
        assert self.pairs(kernel, (8, 8, 2), (2, 2)) == set()

    def test_an_element_that_is_read_later_than_it_is_named(self):
        import warp as wp

        def kernel(x, out):
            i = wp.tid()
            value, index = x[i], i
            out[index] = 0.0
            out[index] = value

        assert self.pairs(kernel) == set()

    def test_a_part_of_an_element_is_written(self):
        import warp as wp

        def kernel(x, out):
            i = wp.tid()
            out[i][0] = x[i][1]
            out[i][1] = x[i][0]
            out[i] = out[i] * 2.0

        def increased(x, out):
            i = wp.tid()
            out[i] = x[i]
            out[i][0] += x[i][1]

        assert self.pairs(kernel) == set()
        assert self.pairs(increased) == set()


class TestAreApart:
    def test_is_right_for_drawn_indices(self):
        """Compares with all elements of all threads and iterations."""
        random = np.random.default_rng(0)
        proven = 0
        for _ in range(3000):
            threads = [Counter(int(random.integers(1, 4))) for _ in range(2)]
            loops = tuple(Counter(int(random.integers(1, 4))) for _ in range(random.integers(0, 3)))
            counters = [*threads, *loops]

            factors = [random.integers(0, 7, len(counters)).tolist() for _ in range(random.integers(1, 3))]
            terms = [
                frozenset((counter, factor) for counter, factor in zip(counters, axis, strict=True) if factor)
                for axis in factors
            ]
            accesses = [
                Access(array, tuple(Affine(int(random.integers(0, 4)), each) for each in terms), loops)
                for array in (0, 1)
            ]
            if not are_apart(accesses, threads):
                continue
            proven += 1
            users = {}
            for values in np.ndindex(*(counter.extent for counter in counters)):
                at = dict(zip(counters, values, strict=True))
                for access in accesses:
                    place = tuple(axis.constant + sum(f * at[c] for c, f in axis.terms) for axis in access.index)
                    users.setdefault(place, set()).add(values)
            assert all(len(each) == 1 for each in users.values())
        assert proven > 100
