"""Identity of Warp kernels: another result is another identity, and the same kernel has the same one everywhere."""

import enum
import functools
import gc
import os
import subprocess
import sys
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bridge import KernelCompileError, jax_kernel
from bridge.languages.warp import generated as generation
from bridge.languages.warp import settings
from bridge.languages.warp.compiled import digest_of
from bridge.languages.warp.generated import generated
from suites.backends.warp_blocks import wp
from suites.unit.bridge import warp_kernels as kernels

DOUBLE = wp.array(dtype=wp.float64)
LONG = wp.array(dtype=wp.int64)

# What the kernels refer to. The tests replace it after a kernel is wrapped.
CONSTANT = wp.constant(2.0)
WIDE_INTEGER = wp.constant(wp.int64(1))
WIDE_FLOAT = wp.constant(wp.float64(1.0))
VECTOR_CONSTANT = wp.constant(wp.vec3(1.0, 2.0, 3.0))


def module_with(scale):
    module = types.ModuleType("module")
    module.SCALE = scale
    return module


MODULE = module_with(2.0)


class Mode(enum.IntEnum):
    FAST = 2


class OtherMode(enum.IntEnum):
    FAST = 3


@wp.func
def helper(x: float):
    return 2.0 * x


def of_helper(factor):
    @wp.func
    def helper(x: float):
        return wp.static(factor) * x

    return helper


@wp.func
def outer(x: float):
    return helper(x)


@wp.func_native("return 2.0f * x;")
def native(x: float) -> float: ...  # type: ignore[empty-body]


@wp.func_native("return 3.0f * x;")
def other_native(x: float) -> float: ...  # type: ignore[empty-body]


def uses_constant(x: DOUBLE, out: DOUBLE):
    out[wp.tid()] = wp.float64(CONSTANT)


def uses_wide_integer(x: LONG, out: LONG):
    out[wp.tid()] = WIDE_INTEGER


def uses_wide_float(x: DOUBLE, out: DOUBLE):
    out[wp.tid()] = WIDE_FLOAT


def uses_vector(x: DOUBLE, out: DOUBLE):
    out[wp.tid()] = wp.float64(VECTOR_CONSTANT[1])


def uses_attribute(x: DOUBLE, out: DOUBLE):
    out[wp.tid()] = wp.float64(MODULE.SCALE)


def uses_enum(x: DOUBLE, out: DOUBLE):
    out[wp.tid()] = wp.float64(int(Mode.FAST))


def uses_function(x: DOUBLE, out: DOUBLE):
    out[wp.tid()] = wp.float64(helper(1.0))


def uses_function_of_function(x: DOUBLE, out: DOUBLE):
    out[wp.tid()] = wp.float64(outer(1.0))


def uses_native(x: DOUBLE, out: DOUBLE):
    out[wp.tid()] = wp.float64(native(1.0))


CHANGES = [
    (uses_constant, "CONSTANT", 3.0),
    (uses_wide_integer, "WIDE_INTEGER", wp.int64(1 + 2**40)),
    (uses_wide_float, "WIDE_FLOAT", wp.float64(1.0 + 2.0**-40)),
    (uses_vector, "VECTOR_CONSTANT", wp.vec3(1.0, 7.0, 3.0)),
    (uses_attribute, "MODULE", module_with(3.0)),
    (uses_enum, "Mode", OtherMode),
    (uses_function, "helper", of_helper(3.0)),
    (uses_function_of_function, "helper", of_helper(3.0)),
    (uses_native, "native", other_native),
]


@pytest.mark.parametrize(("function", "name", "value"), CHANGES, ids=[function.__name__ for function, *_ in CHANGES])
def test_another_result_is_another_identity(monkeypatch, function, name, value):
    """What a kernel refers to changes between wrap and trace."""
    with jax.enable_x64(True):
        kernel = kernels.forward_only(function)
        call = jax_kernel(kernel)
        dtype = np.int64 if function is uses_wide_integer else np.float64
        before, result = digest_of(kernel, "cpu", None), call(jnp.zeros(1, dtype))[0][0]
        monkeypatch.setitem(globals(), name, value)
        after, other = digest_of(kernel, "cpu", None), call(jnp.zeros(2, dtype))[0][0]
        assert other != result
        assert after != before
        monkeypatch.undo()
        assert digest_of(kernel, "cpu", None) == before
        assert call(jnp.zeros(3, dtype))[0][0] == result


def test_kernels_that_differ_beyond_what_warp_hashes(tmp_path):
    """Warp hashes 32 bits of a number. Its cache of compiled modules then has the code of another kernel."""

    def make(value):
        @wp.kernel(module="unique", enable_backward=False)
        def constant(out: DOUBLE):
            out[wp.tid()] = value

        return jax_kernel(constant, launch_dims=1)

    with jax.enable_x64(True):
        values = [wp.float64(1.0), wp.float64(1.0 + 2.0**-50), wp.float64(1.0 + 2.0**-49)]
        assert [make(value)()[0][0] for value in values] == [value.value for value in values]


class TestKinds:
    """Kernels of one name and one text, which differ in what they close over."""

    def kernels_of(self, factor, mode):
        kind = wp.vec2 if factor > 2 else float

        @wp.struct
        class Pair:
            first: float
            second: kind

        @wp.func
        def scaled(x: float):
            return x * factor

        @wp.func
        def twice(f: wp.Function, x: float):
            return f(x)

        if mode == "struct":

            @wp.kernel(module="unique")
            def kernel(x: kernels.VECTOR, out: kernels.VECTOR):
                pair = Pair()
                pair.first = x[0]
                out[wp.tid()] = pair.first

        elif mode == "closure":

            @wp.kernel(module="unique")
            def kernel(x: kernels.VECTOR, out: kernels.VECTOR):
                out[wp.tid()] = x[0] * factor

        elif mode == "static":

            @wp.kernel(module="unique")
            def kernel(x: kernels.VECTOR, out: kernels.VECTOR):
                out[wp.tid()] = x[0] * wp.static(factor * 1.0)

        elif mode == "static function":

            @wp.kernel(module="unique")
            def kernel(x: kernels.VECTOR, out: kernels.VECTOR):
                out[wp.tid()] = wp.static(scaled)(x[0])

        elif mode == "function":

            @wp.kernel(module="unique")
            def kernel(x: kernels.VECTOR, out: kernels.VECTOR):
                out[wp.tid()] = scaled(x[0])

        elif mode == "unrolled":

            @wp.kernel(module="unique")
            def kernel(x: kernels.VECTOR, out: kernels.VECTOR):
                total = x[0] - x[0]
                for _ in range(wp.static(int(factor))):
                    total += x[0]
                out[wp.tid()] = total

        elif mode == "adjoint":

            @wp.kernel(module="unique", enable_backward=factor > 2)
            def kernel(x: kernels.VECTOR, out: kernels.VECTOR):
                out[wp.tid()] = x[0]

        elif mode == "generic":
            kind = wp.float32 if factor > 2 else wp.float64

            @wp.kernel(module="unique")
            def kernel(x: wp.array(dtype=kind), out: wp.array(dtype=kind)):
                out[wp.tid()] = x[0]

        else:

            @wp.kernel(module="unique")
            def kernel(x: kernels.VECTOR, out: kernels.VECTOR):
                out[wp.tid()] = twice(scaled, x[0])

        return kernel

    MODES = (
        "struct", "closure", "static", "static function", "function", "unrolled", "adjoint", "generic", "callable",
    )  # fmt: skip

    @pytest.mark.parametrize("mode", MODES)
    @pytest.mark.parametrize("platform", ["cpu", "cuda"])
    def test_they_are_told_apart_and_found_again(self, mode, platform):
        digests = [digest_of(self.kernels_of(factor, mode), platform, None) for factor in (2.0, 3.0, 2.0, 3.0)]
        assert digests[0] != digests[1]
        assert digests[:2] == digests[2:]

    def test_platforms_and_blocks_are_told_apart(self):
        kernel = self.kernels_of(2.0, "closure")
        digests = {digest_of(kernel, *where) for where in (("cpu", None), ("cuda", None), ("cuda", 64), ("cuda", 128))}
        assert len(digests) == 4
        assert digest_of(kernel, "cuda", None) == digest_of(kernel, "cuda", 256)
        assert digest_of(kernel, "cpu", None) == digest_of(kernel, "cpu", 64)  # one thread in any case


def test_other_kernels_of_the_module_do_not_matter():
    module = wp.Module("one_of_several", None)

    def scale(x: kernels.VECTOR, out: kernels.VECTOR):
        out[wp.tid()] = 2.0 * x[0]

    first = wp.Kernel(scale, key="scale", module=module)
    before = digest_of(first, "cpu", None)

    def broken(out: kernels.VECTOR):
        out[wp.tid()] = wp.cross(1.0, 1.0)

    other = wp.Kernel(broken, key="broken", module=module)
    assert digest_of(first, "cpu", None) == before
    np.testing.assert_array_equal(jax_kernel(first)(jnp.ones(2))[0], [2, 2])
    with pytest.raises(KernelCompileError, match="broken"):
        jax_kernel(other, launch_dims=1)()


SAME = """
import enum, sys
import warp as wp
wp.config.log_level = 30
{first}
class Mode(enum.IntEnum):
    FAST = 2
SCALE = wp.constant(1.25)
@wp.struct
class Pair:
    first: float
    rows: wp.array(dtype=wp.vec3)
@wp.func
def helper(x: float, mode: int):
    return x * SCALE + float(mode)
@wp.func
def helper(x: wp.float64, mode: int):
    return x
@wp.func_native("return x + 1.0f;")
def native(x: float) -> float: ...  # type: ignore[empty-body]
def make(factor):
    @wp.func
    def scaled(x: float):
        return x * factor
    @wp.kernel
    def kernel(x: wp.array(dtype=float), out: wp.array(dtype=float)):
        {comment}
        i = wp.tid()
        pair = Pair()
        pair.first = scaled(x[i])
        for _ in range(wp.static(int(factor))):
            pair.first += helper(x[i], int(Mode.FAST)) + native(x[i])
        out[i] = pair.first + wp.sin(x[i])
    return kernel
{second}
kernel = make(3.0)
from bridge.languages.warp.compiled import digest_of
print(digest_of(kernel, "cpu", None), digest_of(kernel, "cuda", 64))
"""


def test_the_identity_is_the_same_in_every_process(tmp_path):
    """Also where the file lies elsewhere, has other comments and blank lines, and other kernels were made before."""
    variants = [
        {"first": "", "second": "", "comment": "pass"},
        {"first": "", "second": "", "comment": "pass"},
        {"first": "import os\n\n\n", "second": "make(2.0)\nother = make(4.0)", "comment": "# a comment\n        pass"},
    ]
    outputs = set()
    for index, variant in enumerate(variants):
        path = tmp_path / str(index) / "program.py"
        path.parent.mkdir()
        path.write_text(SAME.format(**variant))
        run = subprocess.run(
            [sys.executable, path], capture_output=True, text=True, check=False, timeout=120,
            env={**os.environ, "PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": str(index)},
        )  # fmt: skip
        assert run.returncode == 0, run.stderr
        outputs.add(run.stdout.splitlines()[-1])
    assert len(outputs) == 1


def block_sizes(out: kernels.VECTOR):
    out[wp.tid()] = float(wp.block_dim())


def square(x: kernels.VECTOR, out: kernels.VECTOR):
    i = wp.tid()
    out[i] = x[i] * x[i]


class TestSettings:
    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("mode", "debug"),
            ("verify_fp", True),
            ("optimization_level", 1),
            ("enable_vector_component_overwrites", True),
            ("default_grid_stride", False),
            ("enable_mathdx_gemm", False),
            ("enable_tiles_in_stack_memory", False),
            ("cpu_compiler_flags", "-ffast-math"),
            ("cuda_output", "ptx"),
            ("ptx_target_arch", 90),
            ("legacy_scalar_return_types", True),
            ("enable_cpu_blocks", True),
        ],
    )
    def test_a_setting_is_part_of_the_identity(self, monkeypatch, name, value):
        if not hasattr(wp.config, name):
            pytest.skip(f"this Warp has no setting {name}")
        kernel = kernels.forward_only(square)
        before = digest_of(kernel, "cpu", None), digest_of(kernel, "cuda", None)
        monkeypatch.setattr(wp.config, name, value, raising=False)
        after = digest_of(kernel, "cpu", None), digest_of(kernel, "cuda", None)
        assert before[0] != after[0]
        assert before[1] != after[1]
        monkeypatch.undo()
        assert before == (digest_of(kernel, "cpu", None), digest_of(kernel, "cuda", None))

    @pytest.mark.parametrize("option", [{"fast_math": True}, {"fuse_fp": False}, {"enable_backward": True}])
    def test_an_option_of_the_module_is_part_of_the_identity(self, option):
        kernel = wp.Kernel(square, key="square", module=wp.Module("with_options", None))
        wp.set_module_options({"enable_backward": False}, kernel.module)
        before = digest_of(kernel, "cpu", None)
        wp.set_module_options(option, kernel.module)
        assert digest_of(kernel, "cpu", None) != before

    def test_what_warp_prints_is_not(self, monkeypatch):
        kernel = kernels.forward_only(square)
        before = digest_of(kernel, "cpu", None)
        for name, value in (("verify_cuda", True), ("print_launches", True), ("kernel_cache_dir", "/nowhere")):
            monkeypatch.setattr(wp.config, name, value)
        assert digest_of(kernel, "cpu", None) == before

    @pytest.mark.skipif(not hasattr(wp.config, "enable_cpu_blocks"), reason="this Warp has no blocks on the CPU")
    @pytest.mark.parametrize("block_dim", [None, 1, 64])
    def test_an_eager_call_follows_them(self, monkeypatch, block_dim):
        kernel = kernels.forward_only(block_sizes)
        call = jax_kernel(kernel, launch_dims=64, block_dim=block_dim)
        assert call.block_dim == block_dim

        def both():
            own = wp.zeros(64, dtype=float, device="cpu")
            wp.launch(kernel, 64, [own], device="cpu", block_dim=block_dim)
            return call()[0].tolist(), own.numpy().tolist()

        for enabled in (False, True, False, True):
            monkeypatch.setattr(wp.config, "enable_cpu_blocks", enabled)
            ours, theirs = both()
            assert ours == theirs == [64.0 if enabled and block_dim == 64 else 1.0] * 64

    @pytest.mark.skipif(not hasattr(wp.config, "enable_cpu_blocks"), reason="this Warp has no blocks on the CPU")
    def test_a_call_without_jit_follows_them(self, monkeypatch):
        call = jax_kernel(kernels.forward_only(block_sizes), launch_dims=64, block_dim=64)
        for enabled in (False, True, False, True):
            monkeypatch.setattr(wp.config, "enable_cpu_blocks", enabled)
            with jax.disable_jit():
                assert call()[0].tolist() == [64.0 if enabled else 1.0] * 64

    @pytest.mark.skipif(not hasattr(wp.config, "enable_cpu_blocks"), reason="this Warp has no blocks on the CPU")
    def test_a_call_with_values_follows_them_too(self, monkeypatch):
        @kernels.forward_only
        def scaled(factor: float, out: kernels.VECTOR):
            out[wp.tid()] = factor * float(wp.block_dim())

        call = jax_kernel(scaled, launch_dims=32, block_dim=32)
        found = []
        for enabled in (False, True, False):
            monkeypatch.setattr(wp.config, "enable_cpu_blocks", enabled)
            found.append(float(call(2.0)[0][0]))
        assert found == [2, 64, 2]

    def test_an_eager_call_follows_the_options_of_the_module(self):
        kernel = wp.Kernel(square, key="square", module=wp.Module("to_change", None))
        wp.set_module_options({"enable_backward": False}, kernel.module)
        call = jax_kernel(kernel)
        call(jnp.ones(2))
        loaded = set(generation._modules)
        wp.set_module_options({"fast_math": True}, kernel.module)
        call(jnp.ones(2))
        assert len(set(generation._modules) - loaded) == 1

    def test_every_setting_is_known_to_matter_or_not(self):
        """The settings of a Warp to come matter until they are known not to."""
        assert set(settings._NAMES) | settings._WITHOUT_EFFECT >= {
            name for name, value in vars(wp.config).items()
            if not (name.startswith("_") or callable(value) or isinstance(value, types.ModuleType))
        }  # fmt: skip


class TestLoadedCode:
    def test_a_definition_that_changes_while_it_is_compiled(self, monkeypatch):
        kernel = kernels.forward_only(uses_constant)
        launch = wp.launch

        @functools.wraps(launch)
        def changing(*args, **options):
            recorded = launch(*args, **options)
            monkeypatch.setitem(globals(), "CONSTANT", 31.0)
            return recorded

        monkeypatch.setitem(globals(), "CONSTANT", 30.0)
        monkeypatch.setattr(wp, "launch", changing)
        with jax.enable_x64(True), pytest.raises(KernelCompileError, match="changed while it was compiled"):
            jax_kernel(kernel)(jnp.zeros(11))
        monkeypatch.setattr(wp, "launch", launch)
        with jax.enable_x64(True):
            assert jax_kernel(kernel)(jnp.zeros(11))[0][0] == 31

    def test_a_function_that_begins_to_write_after_the_trace(self, monkeypatch):
        @wp.func
        def reads(x: kernels.VECTOR):
            return x[0]

        @wp.func
        def writes(x: kernels.VECTOR):
            x[0] = 5.0
            return x[0]

        monkeypatch.setitem(globals(), "peek", reads)

        @kernels.forward_only
        def peeking(x: kernels.VECTOR, out: kernels.VECTOR):
            out[wp.tid()] = peek(x)  # type: ignore[name-defined]  # noqa: F821

        x = jnp.ones(3)
        traced = jax.jit(jax_kernel(peeking)).trace(x)
        monkeypatch.setitem(globals(), "peek", writes)
        with pytest.raises(KernelCompileError, match=r"may write to 'x', which its code did not when .* Trace"):
            traced.lower()

    def test_a_loaded_kernel_keeps_nothing_of_its_definition(self):
        made = generated(kernels.forward_only(square), "cpu", None)
        jax_kernel(made.kernel)(jnp.ones(2))
        module = generation._modules[made.digest]
        gc.collect()
        assert not list(module._live_kernels)
        assert not module.hashers
        assert not module.kernels
        assert len(module.execs) == 1
