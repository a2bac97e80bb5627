"""jax_kernel: kernels and values that it refuses, compilations that fail, and versions of Warp to come."""

import ctypes
import re
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bridge import (
    AbiError,
    KernelCompileError,
    KernelTypeError,
    LaunchError,
    ParameterError,
    PlatformError,
    SignatureError,
    jax_kernel,
)
from bridge.languages.warp import cpu_plan as host
from bridge.languages.warp import packing as launch
from bridge.languages.warp.launch_spec import Argument, Spec
from bridge.languages.warp.supported import check_warp
from suites.backends.warp_blocks import wp
from suites.unit.bridge import warp_kernels as kernels

X = jnp.arange(1.0, 5.0)


@wp.struct
class Pair:
    first: float
    second: float


def of_struct(x: kernels.VECTOR, pair: Pair, out: kernels.VECTOR):
    out[wp.tid()] = pair.first


def of_structs(x: wp.array(dtype=Pair), out: kernels.VECTOR):
    out[wp.tid()] = x[0].first


def of_indexed(x: wp.indexedarray(dtype=float), out: kernels.VECTOR):
    out[wp.tid()] = x[0]


def of_generic_and_struct(x: wp.array(dtype=Any), pair: Pair, out: wp.array(dtype=Any)):
    out[wp.tid()] = x[0]


def of_generic_and_indexed(x: wp.array(dtype=Any), y: wp.indexedarray(dtype=float), out: wp.array(dtype=Any)):
    out[wp.tid()] = x[0]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (of_struct, "parameter 'pair' is a struct .*Pair, which no JAX value can be"),
        (of_structs, "parameter 'x' is an? array of the struct .*Pair"),
        (of_indexed, "parameter 'x' is an? indexedarray"),
        (of_generic_and_struct, "parameter 'pair' is a struct"),
        (of_generic_and_indexed, "parameter 'y' is an? indexedarray"),
    ],
)
def test_types_that_jax_lacks_are_refused(function, message):
    kernel = kernels.forward_only(function)
    with pytest.raises(KernelTypeError, match=rf"{function.__name__}: {message}"):
        jax_kernel(kernel)


def test_textures_are_refused():
    @kernels.forward_only
    def sample(texture: wp.Texture2D, out: kernels.VECTOR):
        out[wp.tid()] = 1.0

    with pytest.raises(KernelTypeError, match="parameter 'texture' is a Texture2D, which no JAX value can be"):
        jax_kernel(sample)


def assigns(x: kernels.VECTOR, out: kernels.VECTOR):
    i = wp.tid()
    x[i] = 1.0
    out[i] = x[i]


def augments(x: kernels.VECTOR, out: kernels.VECTOR):
    i = wp.tid()
    x[i] += 1.0
    out[i] = x[i]


def assigns_component(x: wp.array(dtype=wp.vec3), out: kernels.VECTOR):
    i = wp.tid()
    x[i][0] = 1.0
    x[i].y = 2.0
    out[i] = 1.0


def adds(x: kernels.VECTOR, out: kernels.VECTOR):
    i = wp.tid()
    wp.atomic_add(x, 0, 1.0)
    out[i] = 1.0


def adds_to_row(x: kernels.MATRIX, out: kernels.VECTOR):
    i = wp.tid()
    wp.atomic_add(x[i], 0, 1.0)
    out[i] = 1.0


def stores_tile(x: kernels.MATRIX, out: kernels.VECTOR):
    i = wp.tid()
    wp.tile_store(x[i], wp.tile_ones(shape=4, dtype=float))
    out[i] = 1.0


@pytest.mark.parametrize(
    ("function", "shape"),
    [(assigns, (4,)), (augments, (4,)), (assigns_component, (4, 3)), (adds, (4,)), (adds_to_row, (4, 4)),
     (stores_tile, (4, 4))],
)  # fmt: skip
def test_a_kernel_that_writes_to_an_input_is_refused(function, shape):
    kernel, x = kernels.forward_only(function), jax.ShapeDtypeStruct(shape, np.float32)
    with pytest.raises(
        SignatureError, match=rf"{function.__name__}\(x, out\): the kernel writes to its input 'x'.*in_out"
    ):
        jax.eval_shape(jax_kernel(kernel, launch_dims=4), x)
    jax.eval_shape(jax_kernel(kernel, num_outputs=2, in_out_argnames=["x"], launch_dims=4), x)


def test_a_kernel_may_assign_to_variables_and_values():
    @kernels.forward_only
    def local(x: wp.array(dtype=wp.vec3), factor: float, out: kernels.VECTOR):
        i = wp.tid()
        copied = x[i]
        copied[0] = 5.0
        factor += 1.0
        out[i] = factor * copied[0]

    x = jnp.ones((2, 3))
    np.testing.assert_array_equal(jax_kernel(local)(x, 1.0)[0], [10, 10])
    np.testing.assert_array_equal(x, jnp.ones((2, 3)))


@pytest.mark.parametrize(
    ("position", "value"),
    [
        (0, 1e39),
        (1, 1.5),
        (1, 2**31),
        (1, np.nan),
        (2, 2),
        (3, 128),
        (4, -1),
        (5, 2**63),
        (6, -1),
        (6, 2**64),
        (7, 65536.0),
    ],
)
def test_a_value_must_be_one_that_its_type_holds(position, value):
    values = [1.0, 1, True, 1, 1, 1, 1, 1.0]
    values[position] = value
    name, dtype = (
        "abcdefgh"[position],
        ["float32", "int32", "bool", "int8", "uint8", "int64", "uint64", "float16"][position],
    )
    with (
        jax.enable_x64(True),
        pytest.raises(SignatureError, match=rf"values: {name!r} is .*expected a value that {dtype} can hold"),
    ):
        jax_kernel(kernels.values, launch_dims=1, output_dims=8)(*values)


def test_a_type_that_no_array_determines():
    @kernels.forward_only
    def fill(value: Any, out: wp.array(dtype=Any)):
        out[wp.tid()] = value

    with pytest.raises(SignatureError, match="the type of 'value' is open and no array before it determines it"):
        jax_kernel(fill, launch_dims=3)(1.0)


def test_an_array_that_an_open_type_does_not_take():
    @kernels.forward_only
    def half(x: wp.array(dtype=wp.Float), out: wp.array(dtype=wp.Float)):
        i = wp.tid()
        out[i] = x[i] / x.dtype(2.0)

    np.testing.assert_array_equal(jax_kernel(half)(X)[0], X / 2)
    with pytest.raises(SignatureError, match=r"half argument 'x' type mismatch: .* Convert the array, or annotate"):
        jax_kernel(half)(X.astype(int))


def test_values_of_a_batch_are_traced_too():
    with pytest.raises(ParameterError, match="'factor' is a traced value"):
        jax.vmap(lambda factor: jax_kernel(kernels.scale)(X, factor))(X)


def test_arguments_that_are_too_large():
    size = 40_000
    packed = launch.Packed(None, None, 1, 1, b"", (bytes(size),), (ctypes.c_char * size,), (), False)
    with pytest.raises(LaunchError, match=r"the arguments of a kernel take \d+ bytes, expected at most 32768"):
        host._context(packed)


class TestCompilation:
    def test_an_error_names_the_kernel_and_the_line(self):
        @wp.kernel(module="unique")
        def wrong(x: kernels.VECTOR, out: kernels.VECTOR):
            i = wp.tid()
            out[i] = x[i] + 1

        program = jax.jit(jax_kernel(wrong))
        with pytest.raises(
            KernelCompileError, match=r"(?s)compile .*wrong \(.*test_warp_errors\.py:\d+\).*must be the same"
        ):
            program.eval_shape(X)

    def test_a_constant_that_cannot_be_evaluated(self):
        @wp.kernel
        def wrong(x: kernels.VECTOR, out: kernels.VECTOR):
            out[wp.tid()] = wp.static(undefined_number)  # type: ignore[name-defined]  # noqa: F821

        with pytest.raises(KernelCompileError, match=r"(?s)compile .*wrong \(.*undefined_number"):
            jax_kernel(wrong)(X)

    def test_an_undefined_name(self):
        @wp.kernel(module="unique")
        def wrong(x: kernels.VECTOR, out: kernels.VECTOR):
            out[wp.tid()] = undefined_function(x[0])  # type: ignore[name-defined]  # noqa: F821

        with pytest.raises(KernelCompileError, match="undefined_function"):
            jax_kernel(wrong)(X)

    def test_a_failed_compilation_can_be_repeated_and_mended(self):
        @wp.func
        def crossed(x: float):
            return wp.cross(x, x)

        @wp.func
        def squared(x: float):
            return x * x

        def make(function):
            @wp.kernel(module="unique", enable_backward=False)
            def mended(x: kernels.VECTOR, out: kernels.VECTOR):
                i = wp.tid()
                out[i] = function(x[i])

            return jax_kernel(mended)

        wrong = make(crossed)
        for _ in range(2):
            with pytest.raises(KernelCompileError, match=r"cannot compile .*mended"):
                wrong(X)
        np.testing.assert_array_equal(make(squared)(X)[0], X * X)

    def test_a_module_that_failed_before(self, monkeypatch):
        monkeypatch.setattr(wp, "launch", lambda *args, **options: None)
        with pytest.raises(KernelCompileError, match=r"count1 .*its module failed to build before"):
            jax_kernel(kernels.count1, launch_dims=12345)()

    def test_types_that_a_generic_kernel_cannot_take_do_not_spoil_it_for_others(self):
        @wp.kernel(module="unique", enable_backward=False)
        def lengths(x: wp.array(dtype=Any), out: wp.array(dtype=float)):
            i = wp.tid()
            out[i] = wp.length(x[i])

        call = jax_kernel(lengths)
        with pytest.raises(KernelCompileError, match="length"):
            call(X.astype(jnp.int32))
        np.testing.assert_array_equal(call(jnp.array([[3.0, 4.0], [0.0, 1.0]]))[0], [5, 1])


class TestPlatforms:
    def test_cuda_without_a_driver(self):
        if wp.is_cuda_available():
            pytest.skip("this machine has a CUDA driver")
        jax_kernel(kernels.reverse)(X)  # the code for the CPU, which has the same description, must not be taken
        program = jax.jit(jax_kernel(kernels.reverse)).trace(X)
        with pytest.raises(PlatformError, match=r"driver library could not be loaded|Warp finds no CUDA device"):
            program.lower(lowering_platforms=("cuda",))

    def test_a_warp_without_the_cpu(self, monkeypatch):
        monkeypatch.setattr(wp, "is_cpu_available", lambda: False)
        with pytest.raises(PlatformError, match="count1 cannot run on the CPU: this build of Warp has no CPU support"):
            jax_kernel(kernels.count1, launch_dims=23456)()

    def test_a_warp_without_cuda(self, monkeypatch):
        from bridge.languages.warp.cuda_plan import build_device

        monkeypatch.setattr(wp, "is_cuda_available", lambda: False)
        with pytest.raises(PlatformError, match="reverse cannot run on CUDA: Warp finds no CUDA device"):
            build_device(SimpleNamespace(kernel=kernels.reverse), None, None)


class TestUnknownWarp:
    """Versions of Warp to come, which may record other things."""

    SPEC = Spec((3,), None, False, (Argument("int32", (), (3,), 0),))

    def read(self, **changes):
        kernel, (argument,) = kernels.count1, self.SPEC.arguments
        array = launch._value(argument, kernel.adj.args[0].type, 0, "cpu")
        recorded = wp.launch(kernel, self.SPEC.dims, [array], device="cpu", record_cmd=True)
        record = {"params": recorded.params, "hooks": recorded.hooks, "module_exec": None, "block_dim": 1, **changes}
        return launch._read(kernel, self.SPEC, SimpleNamespace(**record))

    def test_what_this_one_records_is_read(self):
        packed = self.read()
        assert packed.patches[0][0] == 0
        assert packed.patches[0][2] == 0
        assert len(packed.arguments) == len(packed.types) == 1

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"params": None}, "a recorded launch has other contents"),
            ({"params": []}, "a recorded launch has other contents"),
            ({"hooks": None}, "a recorded launch has other contents"),
            ({"params": [b"", 1, 2]}, "count1 has 1 parameters, but its launch 2 arguments"),
            ({"hooks": SimpleNamespace(forward=None)}, "count1 has 1 parameters"),
            ({"params": [b"", SimpleNamespace(data=5)]}, "argument 0 of count1 does not hold the address"),
        ],
    )
    def test_what_it_does_not_understand_is_refused(self, changes, message):
        with pytest.raises(AbiError, match=rf"launches of Warp {re.escape(wp.__version__)}: {message}"):
            self.read(**changes)

    @pytest.mark.parametrize(
        ("context", "message"),
        [
            (None, "it generates code in another place"),
            (SimpleNamespace(), "its Module lacks one of the methods mark_modified, resolve_options"),
            (SimpleNamespace(Module=wp.Module), "its ModuleBuilder lacks one of the methods codegen"),
        ],
    )
    def test_code_that_is_generated_in_another_way(self, monkeypatch, context, message):
        own = SimpleNamespace() if context is None else SimpleNamespace(context=context)
        monkeypatch.setattr(wp, "_src", own)
        with pytest.raises(AbiError, match=message):
            check_warp()

    def test_blocks_of_the_cpu_whose_errors_are_elsewhere(self, monkeypatch):
        monkeypatch.setattr(wp._src.context, "runtime", SimpleNamespace(core=SimpleNamespace()))
        with pytest.raises(AbiError, match="does not say where errors of CPU blocks are"):
            host._take_error()
