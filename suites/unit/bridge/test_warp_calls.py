"""jax_kernel: types of arrays and values, launch dimensions, shapes of outputs, and what a single call may set."""

import gc
import inspect
import weakref
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bridge
from bridge import BridgeError, ParameterError, SignatureError, jax_kernel, warp_callable
from suites.kernels.warp.blocks import wp
from suites.unit.bridge import warp_kernels as kernels
from suites.unit.bridge.kernels import exported

WARPS_OWN = getattr(wp, "jax_kernel", None)
PARAMETERS = list(inspect.signature(WARPS_OWN).parameters) if WARPS_OWN else []
# Warp 1.16 added the CPU together with the choice of a block size.
warps_own = pytest.mark.skipif(
    "block_dim" not in PARAMETERS, reason=f"jax_kernel of Warp {wp.__version__} does not run on the CPU"
)

X = jnp.arange(1.0, 5.0)
TABLE = jnp.asarray(np.random.default_rng(1).integers(-99, 99, (6, 4)), jnp.float32)
LOW, HIGH = TABLE.min(axis=1), TABLE.max(axis=1)
ONES = jnp.ones(1)
REVERSE = kernels.REVERSE["float32"]
TILES = jnp.arange(3.0 * kernels.TILE).reshape(3, -1)
TWO = {"num_outputs": 2}
EXCHANGE = {"num_outputs": 3, "in_out_argnames": ["total", "old"]}


def grid4(*shape):
    return sum(10 ** (3 - axis) * index for axis, index in enumerate(np.indices(shape)))


class Row(NamedTuple):
    """A call and its results; ``own`` is what this call sets."""

    kernel: Any
    options: dict[str, Any]
    args: tuple[Any, ...]
    expected: list[Any]
    own: dict[str, Any] = {}  # noqa: RUF012


CALLS = {
    "an array": Row(kernels.REVERSE["float32"], {}, (X,), [X[::-1]]),
    "a value": Row(kernels.scale, {}, (X, 3.0), [3 * X]),
    "an empty array": Row(kernels.REVERSE["float32"], {}, (X[:0],), [X[:0]]),
    "a launch in four dimensions": Row(kernels.count4, {"launch_dims": (2, 3, 4, 5)}, (), [grid4(2, 3, 4, 5)]),
    "a launch of nothing": Row(kernels.count4, {"launch_dims": (2, 0, 3, 1)}, (), [np.zeros((2, 0, 3, 1))]),
    "an output for each row": Row(kernels.extremes, {**TWO, "launch_dims": (6,)}, (TABLE,), [LOW, HIGH]),
    "dims of vectors": Row(
        kernels.REVERSE["vec3"], {"output_dims": (4, 3)}, (TILES[0, :12].reshape(4, 3),),
        [TILES[0, :12].reshape(4, 3)[::-1]],
    ),
    "dims of one call": Row(
        kernels.extremes, {**TWO, "launch_dims": 6, "output_dims": 6}, (TABLE[:2],), [LOW[:2], HIGH[:2]],
        {"launch_dims": 2, "output_dims": 2},
    ),
    "in/out in the order of the kernel, and an output": Row(
        kernels.exchange, {**EXCHANGE, "output_dims": 4}, (X, 10 * X, ONES), [X, [11], 10 * X]
    ),
    "tiles": Row(
        kernels.tile_sums, {"launch_dims": (3, 1), "output_dims": 3, "block_dim": 1}, (TILES,), [TILES.sum(axis=1)]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_results_are_right(name):
    kernel, options, args, expected, own = CALLS[name]
    for got, wanted in zip(jax_kernel(kernel, **options)(*args, **own), expected, strict=True):
        assert got.shape == np.shape(wanted)
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("dims", [3, [3], (np.int32(3),), np.array([3])])
def test_one_dimension_comes_in_every_form(dims):
    np.testing.assert_array_equal(jax_kernel(kernels.count1, launch_dims=dims)()[0], [0, 1, 2])


def test_the_signature_has_the_values_and_the_options_of_a_call():
    parameters = inspect.signature(jax_kernel(kernels.scale)).parameters
    assert list(parameters) == ["x", "factor", "launch_dims", "output_dims", "vmap_method"]


def test_output_dims_are_for_pure_outputs_only():
    call = jax_kernel(kernels.exchange, **EXCHANGE, output_dims={"out": 7}, launch_dims=4)
    assert [each.shape for each in call(X, X, ONES)] == [(4,), (1,), (7,)]
    with pytest.raises(SignatureError, match=r"has shapes for \['old', 'out'\], expected one for each output"):
        jax_kernel(kernels.exchange, **EXCHANGE, output_dims={"out": 7, "old": 4})


def clears(x: kernels.VECTOR, out: kernels.VECTOR):
    out.zero_()


@warps_own
class TestInThePlaceOfWarpsOwn:
    @pytest.mark.parametrize("shape", [(6, 4), (3, 4)], ids=["first array", "fewer threads"])
    def test_outputs_with_enable_backward_have_the_shape_of_the_first_array(self, shape):
        @kernels.kernel
        def doubled_rows(x: kernels.MATRIX, out: kernels.MATRIX):
            i = wp.tid()
            for j in range(x.shape[1]):
                out[i, j] = 2.0 * x[i, j]

        x = TABLE[: shape[0]]
        for make in (WARPS_OWN, bridge.jax_kernel):
            call = make(doubled_rows, launch_dims=shape[0], enable_backward=True)
            np.testing.assert_array_equal(call(x)[0], 2 * x)
            np.testing.assert_array_equal(jax.grad(lambda x, call=call: call(x)[0].sum())(x), jnp.full(shape, 2))

    @pytest.mark.parametrize("make", [WARPS_OWN, bridge.jax_kernel])
    def test_what_both_refuse(self, make):
        differentiable = make(kernels.polar, num_outputs=2, launch_dims=3, enable_backward=True)
        for name, value in {"launch_dims": 3, "vmap_method": "sequential"}.items():
            with pytest.raises(TypeError, match=f"{name} cannot be overridden per-call"):
                differentiable(X, X, **{name: value})
        with pytest.raises(TypeError, match="output_dims is not supported"):
            differentiable(X, X, output_dims=3)
        huge = 2**31 + 1, f"using wp.tid\\(\\) with extent {2**31 + 1} in dimension 0"
        with pytest.raises(ValueError, match=huge[1]):
            jax.eval_shape(make(REVERSE, launch_dims=huge[0], output_dims=1), X)
        with pytest.raises(ValueError, match=huge[1]):
            jax.eval_shape(make(REVERSE, output_dims=1), jax.ShapeDtypeStruct(huge[:1], np.float32))

    @pytest.mark.parametrize("make", [(WARPS_OWN, wp.jax_callable), (bridge.jax_kernel, bridge.warp_callable)])
    def test_equal_wrappers_are_the_same_object(self, make):
        of_kernel, of_function = make
        assert of_kernel(kernels.scale) is of_kernel(kernels.scale, in_out_argnames=[])
        assert of_kernel(kernels.scale) is not of_kernel(kernels.scale, enable_backward=False, launch_dims=4)
        call = of_function(clears, graph_mode=2, stage_in_argnames=["x"])
        assert call is of_function(clears, graph_mode=wp.JaxCallableGraphMode.WARP, stage_in_argnames=["x"])
        assert of_function(clears).graph_mode is wp.JaxCallableGraphMode.JAX

    @pytest.mark.parametrize("make", [(WARPS_OWN, wp.jax_callable), (bridge.jax_kernel, bridge.warp_callable)])
    def test_a_build_of_warp_without_the_cpu(self, make, monkeypatch):
        of_kernel, of_function = make
        monkeypatch.setattr(wp, "is_cpu_available", lambda: False)
        for call, args in ((of_kernel(kernels.scale), (jnp.ones(17), 3.0)), (of_function(clears), (jnp.ones(17),))):
            with pytest.raises(Exception, match="does not include CPU support"):
                jax.block_until_ready(call(*args))

    def test_parameters_have_the_names_and_the_order_of_warps_own(self):
        assert list(inspect.signature(bridge.jax_kernel).parameters)[: len(PARAMETERS)] == PARAMETERS


def random_bits(dtype, shape):
    """Any bits, NaN of every kind among them."""
    bits = np.random.default_rng(0).bytes(int(np.prod(shape)) * jnp.dtype(dtype).itemsize)
    if dtype == "bool":
        return np.frombuffer(bits, np.uint8).reshape(shape) % 2 == 1
    return np.frombuffer(bits, jnp.dtype(dtype)).reshape(shape)


class TestArrays:
    @pytest.mark.parametrize("name", kernels.ELEMENTS)
    def test_every_dtype_passes_bit_for_bit_and_elements_are_the_last_dimensions(self, x64, name):
        element = kernels.ELEMENTS[name]
        dtype = name if name in kernels.SCALARS else element._wp_scalar_type_.__name__
        x = random_bits(dtype, (37, *getattr(element, "_shape_", ())))
        (result,) = jax_kernel(kernels.REVERSE[name])(x)
        assert result.dtype == x.dtype
        assert np.asarray(result).tobytes() == x[::-1].tobytes()

    def test_a_generic_kernel_serves_several_dtypes_of_one_wrapper(self, x64):
        call = jax_kernel(kernels.scale_any)
        for dtype in ("float32", "int32", "float64", "float32"):
            (result,) = call(jnp.arange(4, dtype=dtype), 3)
            assert result.dtype == dtype
            np.testing.assert_array_equal(result, [0, 3, 6, 9])
        matrices = jnp.arange(8.0, dtype="float32").reshape(2, 2, 2)
        np.testing.assert_array_equal(call(matrices, 0.5)[0], matrices / 2)


class TestValues:
    NAMES = ("float32", "int32", "bool", "int8", "uint8", "int64", "uint64", "float16")
    EXTREMES = (-1.5, -(2**31), True, -128, 255, -(2**53), 2**63, 65504.0)

    @pytest.mark.parametrize("wrap", [lambda name: getattr(wp, name), lambda name: np.dtype(name).type])
    def test_numbers_of_any_library(self, x64, wrap):
        given = [wrap(name)(value) for name, value in zip(self.NAMES, self.EXTREMES, strict=True)]
        assert jax_kernel(kernels.values, launch_dims=1, output_dims=8)(*given)[0].tolist() == list(self.EXTREMES)

    @pytest.mark.parametrize(
        ("vector", "matrix", "half"),
        [(np.float32, np.float32, np.float16), (wp.vec3, wp.mat33, wp.vec3h), (list, list, list)],
        ids=["arrays", "Warp's vectors", "lists"],
    )
    def test_vectors_and_matrices(self, vector, matrix, half):
        given = vector([1.0, 2.0, 3.0]), matrix(np.arange(9.0).reshape(3, 3).tolist()), half([0.5, 1.5, 2.5])
        call = jax_kernel(kernels.composites, launch_dims=1, output_dims=4)
        assert call(*given, np.arange(6.0).reshape(2, 3))[0].tolist() == [3.0, 2.0, 1.5, 2.0]


# Structs, and meshes by their ids.

FLOATS, POINTS = wp.array(dtype=float), wp.array(dtype=wp.vec3)
WAVE = jnp.sin(jnp.arange(8.0))


@wp.struct
class Shift:
    by: wp.vec3
    half: wp.float16


@wp.struct
class Settings:
    gain: float
    shift: Shift


@wp.kernel
def affine(a: FLOATS, settings: Settings, out: FLOATS):
    i = wp.tid()
    out[i] = settings.gain * a[i] + settings.shift.by[1] + float(settings.shift.half)


@wp.kernel
def distance(mesh: wp.uint64, points: POINTS, out: FLOATS):
    i = wp.tid()
    near = wp.mesh_query_point_no_sign(mesh, points[i], 10.0)
    out[i] = wp.length(wp.mesh_eval_position(mesh, near.face, near.u, near.v) - points[i])


def with_settings(a: FLOATS, settings: Settings, out: FLOATS):
    wp.launch(affine, dim=a.shape, inputs=[a, settings], outputs=[out])
    if settings.gain > 2.0 and settings.shift.half == 0.5:
        out.fill_(settings.shift.by[1])


def test_a_struct_is_a_static_argument_of_kernels_and_callables():
    settings = Settings()
    settings.gain, settings.shift.by, settings.shift.half = 2.0, wp.vec3(0.0, 4.0, 0.0), 0.5
    for call in (jax_kernel(affine), warp_callable(with_settings), warp_callable(with_settings, python_call=True)):
        np.testing.assert_array_equal(call(WAVE, settings)[0], 2 * WAVE + 4.5)
    settings.gain = 3.0
    np.testing.assert_array_equal(jax_kernel(affine)(WAVE, settings)[0], 3 * WAVE + 4.5)
    np.testing.assert_array_equal(warp_callable(with_settings)(WAVE, settings)[0], np.full(8, 4))
    for call in (jax_kernel(affine), warp_callable(with_settings)):
        with pytest.raises(SignatureError, match="'settings' is 3, expected a value that the struct Settings can hold"):
            call(WAVE, 3)


def measures(mesh: wp.uint64, points: POINTS, out: FLOATS):
    wp.launch(distance, dim=points.shape, inputs=[mesh, points], outputs=[out])


def test_a_mesh_is_a_static_argument_that_no_program_takes_along():
    corners = wp.array(np.eye(3, dtype=np.float32)[:, ::-1] * 4, dtype=wp.vec3, device="cpu")
    mesh = wp.Mesh(corners, wp.array([0, 1, 2], dtype=int, device="cpu"))
    points = jnp.array([[4.0, 0, 3], [0, 0, 6]])
    for call in (jax_kernel(distance), warp_callable(measures), warp_callable(measures, python_call=True)):
        for given in (mesh, mesh.id):
            np.testing.assert_allclose(call(given, points)[0], [1.5 * 2**0.5, 2.0], rtol=1e-6)
    for call in (jax_kernel(distance), warp_callable(measures)):
        with pytest.raises(BridgeError, match=r"cannot be exported: it .* mesh"):
            exported(lambda points, call=call: call(mesh, points), points)
    with pytest.raises(ParameterError, match="measures: 'mesh' is a traced value"):
        jax.jit(warp_callable(measures))(3, points)


def test_a_mesh_lives_as_long_as_the_code_that_has_its_id():
    mesh = wp.Mesh(wp.zeros(3, dtype=wp.vec3, device="cpu"), wp.array([0, 1, 2], dtype=int, device="cpu"))
    jax_kernel(distance)(mesh, jnp.ones((2, 3)))
    kept = weakref.ref(mesh)
    del mesh
    gc.collect()
    assert kept() is not None
