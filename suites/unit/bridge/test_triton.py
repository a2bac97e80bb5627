"""triton_kernel: what shows without a GPU, and on a GPU the rest."""

# mypy: disable-error-code="name-defined"

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bridge
from bridge import KernelCompileError, KernelTypeError, LaunchError, SignatureError
from suites.unit.bridge.cubins import cubin_in, sizes_in
from suites.unit.bridge.entries import call_in
from suites.unit.bridge.test_cuda_raw import HAS_GPU, gpu

triton = pytest.importorskip("triton", reason="triton is not installed")
tl = pytest.importorskip("triton.language")

PLATFORM = "cuda" if HAS_GPU else "cpu"
N = 1000
X = np.arange(N, dtype=np.float32)
OUT = jax.ShapeDtypeStruct((N,), np.float32)


@triton.jit
def scale(x, out, factor, n, BLOCK: "tl.constexpr" = 256):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n) * factor, i < n)


@triton.jit
def product(a, b, out, SIDE: "tl.constexpr"):
    at = tl.arange(0, SIDE)[:, None] * SIDE + tl.arange(0, SIDE)[None, :]
    tl.store(out + at, tl.dot(tl.load(a + at), tl.load(b + at), input_precision="ieee"))


@triton.jit
def by_chip(x, out, NEW: "tl.constexpr", BLOCK: "tl.constexpr"):
    i = tl.arange(0, BLOCK)
    value = tl.load(x + i)
    if tl.target_info.cuda_capability_geq(9, 0):
        value = value * NEW
    tl.store(out + i, value)


@triton.jit
def applied(x, out, F: "tl.constexpr", BLOCK: "tl.constexpr"):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, F(tl.load(x + i)))


@triton.jit
def unpowered(value):
    return value + tl.arange(0, 3)


@triton.jit
def staged(x, out, n: "tl.int64", factor, num_stages: "tl.constexpr" = 1, BLOCK: "tl.constexpr" = 128):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n * n) * factor + num_stages * WEIGHT)


@triton.jit
def copied(x, out, BLOCK: "tl.constexpr"):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, (tl.load(x + i).to(tl.float32) + 1).to(out.dtype.element_ty))


@triton.jit
def biased(x, bias, out, BLOCK: "tl.constexpr"):
    i = tl.arange(0, BLOCK)
    value = tl.load(x + i)
    if bias is not None:
        value += tl.load(bias + i)
    tl.store(out + i, value)


@triton.jit
def doubled(x, out, SIDE: "tl.constexpr", BLOCK: "tl.constexpr"):
    source = tl.make_tensor_descriptor(x, [SIDE, SIDE], [SIDE, 1], [BLOCK, SIDE])
    target = tl.make_tensor_descriptor(out, [SIDE, SIDE], [SIDE, 1], [BLOCK, SIDE])
    first = tl.program_id(0) * BLOCK
    target.store([first, 0], source.load([first, 0]) * 2)


WEIGHT = tl.constexpr(1)
SPEC = jax.ShapeDtypeStruct((128,), np.float32)
SQUARE = jax.ShapeDtypeStruct((64, 64), np.float32)
DOUBLED = bridge.triton_kernel(doubled, SQUARE, grid=4, SIDE=64, BLOCK=16)


def double():
    @triton.jit
    def function(value):
        return value * 2

    return function


def triple():
    @triton.jit
    def function(value):
        return value * 3

    return function


def scaled(**changes):
    given = {"grid": lambda v: triton.cdiv(N, v["BLOCK"]), "factor": 2.0, "n": N} | changes
    return bridge.triton_kernel(scale, OUT, **given)


def code_in(kernel, *arrays, capability=90):
    call = call_in(kernel, *arrays)
    return call, cubin_in(call, capability)


@pytest.mark.parametrize("capability", [80, 90, 100])
def test_a_kernel_compiles_for_three_generations_without_a_gpu(capability):
    code = code_in(scaled(), OUT, capability=capability)[1]
    launch = code.launch
    assert (code.content[:4], code.symbol) == (b"\x7fELF", "scale")
    assert launch.blob[:4] == (0, 0, int.from_bytes(np.float32(2).tobytes(), "little"), N)
    assert launch.parameters == tuple(range(0, 8 * len(launch.blob), 8))
    assert sizes_in(code.content, code.symbol) == launch.sizes
    assert [(patch.word, patch.buffer) for patch in launch.patches] == [(0, 0), (1, 1)]
    assert (launch.grid, launch.block, launch.cluster) == ((4, 1, 1), (128, 1, 1), 1)


@pytest.mark.parametrize("dtype", ["bool", "bfloat16", "float64"])
def test_a_number_is_passed_in_the_bytes_of_its_dtype(dtype):
    code = code_in(scaled(factor=jnp.dtype(dtype).type(1)), OUT)[1]
    assert sizes_in(code.content, code.symbol) == code.launch.sizes


def test_blocks_of_a_program_form_a_cluster():
    call, code = code_in(bridge.triton_kernel(product, SQUARE, grid=3, SIDE=64, num_ctas=2), SQUARE, SQUARE)
    assert (code.launch.grid, code.launch.cluster, code.launch.shared_bytes > 0) == ((6, 1, 1), 2, True)
    with pytest.raises(LaunchError, match="num_ctas is 2, but sm_80 has no clusters"):
        cubin_in(call, 80)


def test_a_pointer_may_be_none():
    with_bias = code_in(bridge.triton_kernel(biased, SPEC, grid=1, BLOCK=128), SPEC, SPEC)[1]
    without = code_in(bridge.triton_kernel(biased, SPEC, grid=1, bias=None, BLOCK=128), SPEC)[1]
    more, fewer = (len(sizes_in(code.content, "biased")) for code in (with_bias, without))
    assert more == fewer + 1


def test_descriptors_that_a_kernel_makes_have_scratch_memory():
    call, code = code_in(DOUBLED, SQUARE)
    assert (call.hidden, call.outputs[1:]) == (1, (((4 * 256,), np.uint8),))
    assert [(patch.word, patch.buffer) for patch in code.launch.patches] == [(0, 0), (1, 1), (2, 2)]
    assert len(cubin_in(call, 80).launch.patches) == 2


def test_calls_of_equal_code_have_one_key_wherever_the_kernel_stands():
    def key(kernel):
        return call_in(kernel, OUT).describe("cuda")[1]

    assert scaled() is scaled()
    others = [scaled(factor=3.0), scaled(BLOCK=128), scaled(num_warps=8), scaled(num_stages=2), scaled(n=999)]
    assert len({key(scaled()), *map(key, others)}) == 6
    assert ".py" not in _content(OUT)  # neither file nor line


def test_kernels_that_differ_on_new_chips_alone_have_different_keys():
    calls = [call_in(bridge.triton_kernel(by_chip, SPEC, grid=1, NEW=new, BLOCK=128), SPEC) for new in (2, 3)]
    for capability, differs in ((80, False), (90, True)):
        assert (len({cubin_in(call, capability).content for call in calls}) == 2) is differs
    assert calls[0].describe("cuda") != calls[1].describe("cuda")


def test_functions_of_one_name_are_different_values():
    calls = [bridge.triton_kernel(applied, SPEC, grid=1, F=by(), BLOCK=128) for by in (double, triple)]
    assert len({call_in(call, SPEC).describe("cuda") for call in calls}) == 2


def test_numbers_and_launch_options_are_passed_as_the_kernel_declares_them():
    def call(**values):
        wrapper = bridge.triton_kernel(staged, SPEC, grid=1, **{"n": 2**20, "factor": np.float64(2)} | values)
        return call_in(wrapper, SPEC)

    assert [(each.name, each.dtype) for each in call().definition.scalars] == [("n", "int64"), ("factor", "float64")]
    made = [call(num_stages=5).definition, call().definition]
    assert [(dict(each.constants)["num_stages"], each.options["num_stages"]) for each in made] == [(5, 5), (1, 3)]
    for wrong in ({"n": 1.5}, {"n": 2**63}, {"factor": 1e39}):
        with pytest.raises(SignatureError, match="expected a number or a NumPy scalar that fits"):
            call(**wrong)


def test_a_variable_that_changes_after_the_trace_is_an_error(monkeypatch):
    traced = call_in(bridge.triton_kernel(staged, SPEC, grid=1, n=7, factor=1), SPEC)
    assert traced.describe("cuda")
    monkeypatch.setitem(globals(), "WEIGHT", tl.constexpr(2))
    with pytest.raises(KernelCompileError, match="staged uses a variable that changed after the trace"):
        cubin_in(traced)


def test_a_dtype_that_old_chips_lack_runs_on_new_ones():
    spec = jax.ShapeDtypeStruct((128,), jnp.float8_e4m3fn)
    call, code = code_in(bridge.triton_kernel(copied, spec, grid=1, BLOCK=128), spec)
    assert code.symbol == "copied"
    with pytest.raises(KernelCompileError, match="not supported in this architecture"):
        cubin_in(call, 80)


def test_addresses_are_checked_where_the_code_moves_16_bytes_at_once():
    aligned, odd = jax.ShapeDtypeStruct((N,), np.float32), jax.ShapeDtypeStruct((N + 1,), np.float32)
    assert "tt.divisibility" in _content(aligned)
    assert "tt.divisibility" not in _content(odd)


def _content(spec):
    call = call_in(bridge.triton_kernel(scale, spec, grid=4, factor=2.0, n=spec.size + 1), spec)
    return str(call.definition.content(call.signature))


def test_what_triton_refuses_names_the_kernel():
    with pytest.raises(KernelCompileError, match=r"Triton cannot compile scale:(.|\n)*power of 2"):
        jax.eval_shape(scaled(BLOCK=250), OUT)
    with pytest.raises(KernelCompileError, match=r"Triton cannot compile applied:(.|\n)*power of 2"):
        jax.eval_shape(bridge.triton_kernel(applied, SPEC, grid=1, F=unpowered, BLOCK=128), SPEC)
    with pytest.raises(KernelCompileError, match="Triton has no complex64 arrays"):
        jax.eval_shape(scaled(), X.astype(np.complex64))
    with pytest.raises(LaunchError, match="launches nothing, so the outputs would not be written"):
        jax.eval_shape(scaled(grid=0), OUT)


@triton.jit
def shifted(value, by):
    return value + by


FAST = triton.Config({"BLOCK": 512}, num_warps=8)


@triton.heuristics({"HAS_BIAS": lambda args: args["bias"] is not None, "EVEN": lambda args: args["n"] % 8 == 0})
@triton.autotune([triton.Config({"BLOCK": 256}, num_stages=2), FAST], key=["n"])
@triton.heuristics({"WIDE": lambda args: args["BLOCK"] > 256})
@triton.jit
def tuned(out, x, bias, n, stride, BLOCK: "tl.constexpr", EVEN: "tl.constexpr", HAS_BIAS: "tl.constexpr",
          WIDE: "tl.constexpr", SHIFT: "tl.constexpr" = 1):  # fmt: skip
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = shifted(tl.load(x + i * stride, i < n), SHIFT)
    if HAS_BIAS:
        value += tl.load(bias + i, i < n)
    tl.store(out + i, value, i < n)


def of_tuned(**options):
    given = {"grid": lambda v: triton.cdiv(N, v["BLOCK"]), "outputs": ["out"], "n": N, "stride": 1} | options
    return bridge.triton_kernel(tuned, OUT, **given)


@pytest.mark.parametrize(
    ("options", "threads", "stages", "found"),
    [({}, 128, 2, (256, True, True, False)), ({"config": FAST}, 256, 3, (512, True, True, True)),
     ({"bias": None, "BLOCK": 1024, "num_warps": 2}, 64, 2, (1024, True, False, True)),
     ({"n": 999, "EVEN": True, "config": FAST}, 256, 3, (512, True, True, True))],
)  # fmt: skip
def test_decorators_of_triton_are_resolved_once_and_values_go_before_them(options, threads, stages, found):
    call, code = code_in(of_tuned(**options), *[OUT] * (1 if "bias" in options else 2))
    definition = call.definition
    constants = dict(definition.constants)
    assert tuple(constants[each] for each in ("BLOCK", "EVEN", "HAS_BIAS", "WIDE")) == found
    assert (code.launch.block[0], definition.options["num_stages"], constants["SHIFT"]) == (threads, stages, 1)
    assert call.options.shape.grid == (triton.cdiv(N, found[0]), 1, 1)


def test_a_heuristic_that_reads_an_array_is_refused():
    reads = triton.heuristics({"BLOCK": lambda args: args["x"].shape[0]})(scale)
    with pytest.raises(SignatureError, match=r"the heuristic of 'BLOCK' raised AttributeError.* Pass BLOCK=\.\.\."):
        bridge.triton_kernel(reads, OUT, grid=1, factor=2.0, n=N)


def test_a_kernel_may_have_its_outputs_first():
    launch = code_in(of_tuned(), OUT, OUT)[1].launch
    assert [(patch.word, patch.buffer) for patch in launch.patches] == [(1, 0), (2, 1), (0, 2)]


SHIFTED = bridge.XLACustomKernel("shifted")
SHIFTED.def_jnp_kernel(lambda outs: lambda x: x + 1)
SHIFTED.def_triton_kernel(
    lambda outs, config: of_tuned(config=config, bias=None), configurations=bridge.triton_configurations(tuned)
)


def test_an_operator_names_the_configurations_of_a_kernel_by_name():
    names = bridge.triton_configurations(tuned)
    assert names == {
        "BLOCK=256 num_warps=4 num_stages=2": {"config": tuned.fn.configs[0]},
        "BLOCK=512 num_warps=8 num_stages=3": {"config": FAST},
    }
    SHIFTED.set_default("cuda", f"triton:{list(names)[1]}")
    assert SHIFTED.defaults["cuda"] == "triton:BLOCK=512 num_warps=8 num_stages=3"
    with pytest.raises(KernelTypeError, match="got a kernel without configurations"):
        bridge.triton_configurations(scale)


@gpu
class TestOnGpu:
    def test_a_decorated_kernel_computes_what_it_says(self):
        bias = X[::-1].copy()
        np.testing.assert_array_equal(of_tuned()(X, bias), X + 1 + bias)
        np.testing.assert_array_equal(of_tuned(config=FAST, bias=None, SHIFT=3)(X), X + 3)
        assert [each.status for each in SHIFTED.tune(X, outs=OUT).trials].count("failed") == 0

    def test_a_kernel_sees_the_chip_that_it_is_compiled_for(self):
        ones = np.ones(128, np.float32)
        is_new = float(jax.devices()[0].compute_capability) >= 9
        call = bridge.triton_kernel(by_chip, SPEC, grid=1, NEW=7, BLOCK=128)
        np.testing.assert_array_equal(call(ones), 7 * ones if is_new else ones)

    def test_much_shared_memory_and_clusters(self):
        random = np.random.default_rng(0)
        for side, ctas in ((64, 1), (64, 2), (128, 1)):
            a, b = (random.integers(-4, 5, (side, side)).astype(np.float32) for _ in range(2))
            spec = jax.ShapeDtypeStruct((side, side), np.float32)
            call = bridge.triton_kernel(product, spec, grid=1, SIDE=side, num_ctas=ctas)
            np.testing.assert_array_equal(call(a, b), a @ b)

    def test_descriptors_that_a_kernel_makes_and_a_pointer_that_is_none(self):
        x = np.arange(3 * 64 * 64, dtype=np.float32).reshape(3, 64, 64)
        np.testing.assert_array_equal(DOUBLED(x[0]), 2 * x[0])
        np.testing.assert_array_equal(jax.vmap(DOUBLED)(x), 2 * x)
        row = x[0, :2].reshape(128)
        bias = jax.ShapeDtypeStruct((128,), np.float32)
        for given, arrays in (({"bias": None}, [row]), ({}, [row, row])):
            call = bridge.triton_kernel(biased, bias, grid=1, BLOCK=128, **given)
            np.testing.assert_array_equal(call(*arrays), len(arrays) * row)
