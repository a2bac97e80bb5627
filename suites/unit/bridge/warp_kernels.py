"""Warp kernels that the tests of jax_kernel share, each compiled when a test first runs it.

With a Warp module of its own, a kernel costs a few tenths of a second on the CPU, and one that no test runs costs
nothing. In one module for all they would be compiled together, and again for each new instance of a generic one.
"""

# No `from __future__ import annotations` here: Warp reads the annotations of a kernel as objects.
# mypy: disable-error-code="valid-type"

from typing import Any

from suites.kernels.warp.blocks import wp

kernel = wp.kernel(module="unique")
forward_only = wp.kernel(module="unique", enable_backward=False)

VECTOR, MATRIX = wp.array(dtype=wp.float32), wp.array(dtype=wp.float32, ndim=2)
VECTOR64 = wp.array(dtype=wp.float64)
INDICES = wp.array(dtype=wp.int32)


# Arrays of every type.


@forward_only
def reverse(x: wp.array(dtype=Any), out: wp.array(dtype=Any)):
    i = wp.tid()
    out[i] = x[x.shape[0] - 1 - i]


SCALARS = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float32", "float64"),
]
ELEMENTS = {
    **{name: getattr(wp, name) for name in SCALARS},
    **{name: getattr(wp, name) for name in ("vec2", "vec3", "vec4", "vec3h", "vec4ub", "mat22", "mat33", "mat44d")},
    **{name: getattr(wp, name) for name in ("quat", "quatd", "transform", "spatial_vector")},
    "mat23": wp.types.matrix(shape=(2, 3), dtype=wp.float32),
    "vec7": wp.types.vector(length=7, dtype=wp.int16),
}
"""Types of elements, by name."""

REVERSE = {
    name: wp.overload(reverse, [wp.array(dtype=element), wp.array(dtype=element)]) for name, element in ELEMENTS.items()
}
"""An instance of :func:`reverse` for each, with concrete annotations; all are compiled together."""


@wp.kernel
def reads_its_state(x: VECTOR64, s: VECTOR64, out: VECTOR64):
    i = wp.tid()
    s[i] = s[i] + x[i]
    out[i] = x[i] * s[i]


@wp.kernel
def squares_its_output(x: VECTOR64, s: VECTOR64, out: VECTOR64):
    i = wp.tid()
    out[i] = x[i] * s[i]
    out[i] = out[i] * out[i]


@wp.func
def squared_in_place(values: VECTOR64, i: int):
    values[i] = values[i] * values[i]


@wp.kernel
def squares_its_output_in_a_function(x: VECTOR64, s: VECTOR64, out: VECTOR64):
    i = wp.tid()
    out[i] = x[i] * s[i]
    squared_in_place(out, i)


# Values.


@forward_only
def scale(x: VECTOR, factor: float, out: VECTOR):
    i = wp.tid()
    out[i] = factor * x[i]


@forward_only
def scale_any(x: wp.array(dtype=Any), factor: Any, out: wp.array(dtype=Any)):
    i = wp.tid()
    out[i] = x[i] * factor


@forward_only
def values(a: float, b: int, c: bool, d: wp.int8, e: wp.uint8, f: wp.int64, g: wp.uint64, h: wp.float16, out: VECTOR64):
    out[0] = wp.float64(a)
    out[1] = wp.float64(b)
    out[2] = wp.where(c, wp.float64(1.0), wp.float64(0.0))
    out[3] = wp.float64(d)
    out[4] = wp.float64(e)
    out[5] = wp.float64(f)
    out[6] = wp.float64(g)
    out[7] = wp.float64(h)


@forward_only
def composites(
    v: wp.vec3, m: wp.mat33, h: wp.vec3h, rows: wp.types.matrix(shape=(2, 3), dtype=wp.float32), out: VECTOR
):
    out[0] = v[2]
    out[1] = m[0, 2]
    out[2] = float(h[1])
    out[3] = rows[0, 2]


# Launches, several outputs, in/out arguments.


@forward_only
def count4(out: wp.array4d(dtype=int)):
    i, j, k, m = wp.tid()
    out[i, j, k, m] = 1000 * i + 100 * j + 10 * k + m


@forward_only
def count1(out: INDICES):
    i = wp.tid()
    out[i] = i


@forward_only
def extremes(x: MATRIX, low: VECTOR, high: VECTOR):
    row = wp.tid()
    least = x[row, 0]
    most = x[row, 0]
    for column in range(1, x.shape[1]):
        least = wp.min(least, x[row, column])
        most = wp.max(most, x[row, column])
    low[row] = least
    high[row] = most


@forward_only
def increment(x: VECTOR):
    i = wp.tid()
    x[i] = x[i] + 1.0


@forward_only
def exchange(x: VECTOR, old: VECTOR, total: VECTOR, out: VECTOR):
    """For old and total in and out."""
    i = wp.tid()
    out[i] = old[i]
    old[i] = x[i]
    wp.atomic_add(total, 0, x[i])


@forward_only
def tick(address: wp.uint64, x: VECTOR, out: VECTOR):
    """Adds to a number elsewhere in memory."""
    i = wp.tid()
    wp.atomic_add(wp.array(ptr=address, shape=(1,), dtype=wp.int32), 0, 1)
    out[i] = x[i]


# With a derivative.


@kernel
def logistic(rate: VECTOR, x: VECTOR, out: VECTOR):
    """A rate for all."""
    i = wp.tid()
    out[i] = rate[0] * x[i] * (1.0 - x[i])


@kernel
def polar(radius: VECTOR64, angle: VECTOR64, x: VECTOR64, y: VECTOR64):
    i = wp.tid()
    x[i] = radius[i] * wp.cos(angle[i])
    y[i] = radius[i] * wp.sin(angle[i])


@kernel
def deposit(mass: VECTOR64, cell: INDICES, density: VECTOR64):
    """For density in and out."""
    i = wp.tid()
    wp.atomic_add(density, cell[i], mass[i] * mass[i])


@kernel
def power(factor: VECTOR64, x: VECTOR64):
    """For x in and out: overwritten by what was computed from it."""
    i = wp.tid()
    x[i] = factor[i] * x[i] * x[i]


@kernel
def evens(factor: VECTOR64, x: VECTOR64):
    """For x in and out, of which every second element stays."""
    i = wp.tid()
    if i % 2 == 0:
        x[i] = factor[i] * factor[i]


@kernel
def largest(x: VECTOR64, most: VECTOR64):
    """For most in and out."""
    i = wp.tid()
    wp.atomic_max(most, 0, x[i])


@kernel
def twice(x: VECTOR64, out: VECTOR64):
    """The first value stored does not last."""
    i = wp.tid()
    out[i] = x[i] * x[i] * x[i]
    out[i] = wp.sin(x[i])


@kernel
def reads_output(x: VECTOR64, square: VECTOR64, cube: VECTOR64):
    i = wp.tid()
    square[i] = x[i] * x[i]
    cube[i] = square[i] * x[i]


@kernel
def turn(points: wp.array(dtype=wp.vec3d), angle: VECTOR64, axis: wp.vec3d, out: wp.array(dtype=wp.vec3d)):
    i = wp.tid()
    out[i] = wp.quat_rotate(wp.quat_from_axis_angle(axis, angle[0]), points[i])


@kernel
def gather(x: VECTOR64, index: INDICES, out: VECTOR64, count: INDICES):
    i = wp.tid()
    out[i] = x[index[i]] * x[index[i]]
    count[i] = index[i] + 1


# Tiles.

TILE, BLOCK = 16, 8
"""Elements of a tile, and the threads that share the work on it."""


@kernel
def tile_sums(x: MATRIX, out: VECTOR):
    i = wp.tid()
    wp.tile_store(out, wp.tile_sum(wp.tile_load(x[i], shape=TILE)), offset=i)


@kernel
def tile_total(x: MATRIX, total: VECTOR):
    """For total in and out."""
    i = wp.tid()
    wp.tile_atomic_add(total, wp.tile_sum(wp.tile_load(x[i], shape=TILE)), offset=0)


@forward_only
def tile_squares(x: wp.array3d(dtype=float), out: wp.array3d(dtype=float)):
    """The square of each matrix, in shared memory."""
    i = wp.tid()
    a = wp.tile_load(x[i], shape=(TILE, TILE), storage="shared")
    b = wp.tile_load(x[i], shape=(TILE, TILE), storage="shared")
    c = wp.tile_zeros(shape=(TILE, TILE), dtype=wp.float32, storage="shared")
    wp.tile_matmul(a, b, c)
    wp.tile_store(out[i], c)


@forward_only
def count_tiles(tiles: VECTOR):
    """Named after tiles, but every thread adds on its own; for tiles in and out."""
    i = wp.tid()
    wp.atomic_add(tiles, i, 1.0)


@kernel
def block_sums(x: VECTOR, out: VECTOR):
    """Each thread has one element of the tile of its block."""
    i = wp.tid()
    wp.tile_store(out, wp.tile_sum(wp.tile(x[i] * x[i])), offset=i // BLOCK)


# Structs.


@wp.struct
class Line:
    slope: wp.float64
    offset: wp.vec2d


@wp.struct
class Lines:
    first: Line
    count: wp.int32


@kernel
def follow(x: VECTOR64, lines: Lines, out: VECTOR64):
    i = wp.tid()
    out[i] = wp.float64(lines.count) * (x[i] * x[i] * lines.first.slope + lines.first.offset[1])


def shifting_by(number):
    """Returns a new kernel that adds a number."""
    amount = wp.float32(number)

    @kernel
    def shift(x: VECTOR, out: VECTOR):
        i = wp.tid()
        out[i] = x[i] + amount

    return shift
