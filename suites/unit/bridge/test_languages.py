"""The languages as operators and newcomers see them, and what a description of one of their kernels finds again."""

import importlib
import json

import jax
import numba
import numpy as np
import pytest

import bridge.languages
from bridge import BridgeError, KernelCompileError, KernelTypeError
from bridge.ffi.built import Built
from bridge.ffi.plans.device import DevicePlan
from bridge.ffi.table_entry import Entry
from bridge.ffi.target import CPU, CUDA, CUDA_PYTHON
from bridge.languages import DEFINITIONS, Language, NativeLanguage, NoOptions, Signature, Standing
from bridge.languages.native_code import Description, NativeCode
from bridge.languages.numba_cpu import LANGUAGE as NUMBA
from bridge.languages.numba_cpu import numba_kernel
from suites.unit.bridge import kernels
from suites.unit.processes import output

Spec = jax.ShapeDtypeStruct
VECTOR = Spec((3,), np.float32)
STANDINGS = {
    "numba_cpu": ("numba", {"cpu": Standing.REGULAR}),
    "numba_cuda": ("numba_cuda", {"cuda": Standing.REGULAR}),
    "cuda_cpp": ("cuda_raw", {"cuda": Standing.REGULAR}),
    "warp": ("warp", {"cpu": Standing.ONE_THREAD, "cuda": Standing.REGULAR}),
    "triton": ("triton", {"cuda": Standing.REGULAR}),
    "pallas": ("pallas", {"cpu": Standing.INTERPRETED, "cuda": Standing.REGULAR, "tpu": Standing.REGULAR}),
    "jnp": ("jnp", dict.fromkeys(("cpu", "cuda", "tpu"), Standing.REFERENCE)),
}


def code_of(wrapper, *args):
    """The code that a wrapper calls."""
    return jax.make_jaxpr(wrapper)(*args).eqns[0].params["jaxpr"].eqns[0].params["call"].code


@pytest.mark.parametrize("module", STANDINGS)
def test_each_exports_what_operators_need(module):
    language = importlib.import_module(f"bridge.languages.{module}").LANGUAGE
    assert isinstance(language, Language)
    assert (language.name, dict(language.platforms)) == STANDINGS[module]


def test_none_imports_its_compiler_before_a_kernel_is_wrapped():
    imports = "; ".join(f"import bridge.languages.{module}" for module in STANDINGS)
    found = output("-c", f"import sys; {imports}; print({{'warp', 'numba.cuda', 'cuda.core'}} & set(sys.modules))")
    assert found == "set()"


def test_exports_are_sorted_once_each_and_there():
    names = bridge.languages.__all__
    assert names == [*sorted(n for n in names if n.isupper()), *sorted(n for n in names if not n.isupper())]
    assert len(set(names)) == len(names)
    assert all(hasattr(bridge.languages, name) for name in names)


class TestPallas:
    @pytest.mark.parametrize(("platform", "interpret"), [("cpu", True), ("cuda", False), ("tpu", False)])
    def test_a_generator_is_told_where_pallas_interprets(self, platform, interpret):
        adapted = importlib.import_module("bridge.languages.pallas").LANGUAGE.adapted
        assert adapted(lambda outs, interpret: interpret, platform)(outs=()) is interpret
        assert adapted(lambda outs, **options: options, platform)(outs=()) == {"interpret": interpret}

    def test_a_generator_that_does_not_ask_is_left_alone(self):
        def generator(outs):
            return outs

        assert importlib.import_module("bridge.languages.pallas").LANGUAGE.adapted(generator, "cpu") is generator


class TestSignature:
    def test_ranks_are_shared_by_calls_of_other_extents_and_extents_are_not(self):
        long, short = Spec((5,), np.float32), Spec((2,), np.float32)
        for with_extents, equal in ((False, True), (True, False)):
            first, second = (Signature.of("k", [x], [x], (), with_extents=with_extents) for x in (long, short))
            assert (first == second) is equal
            assert (hash(first) == hash(second)) is equal

    def test_an_aliased_input_and_all_outputs_may_be_written_to(self):
        signature = Signature.of("k", [VECTOR, VECTOR], [VECTOR], {1}, with_extents=True)
        assert [array.writable for array in signature.arrays] == [False, True, True]
        assert signature.input_sizes == ((1, 4), (1, 4))
        assert signature.output_sizes == ((1, 4),)

    def test_calls_of_equal_ranks_share_the_machine_code_of_a_numba_kernel(self):
        wrapper = numba_kernel(kernels.double, lambda x: x)
        wrapper(np.ones(3, np.float32))
        entries = len(CPU)
        wrapper(np.ones(4, np.float32))
        assert len(CPU) == entries


class TestResolve:
    def test_text_that_is_no_description(self):
        with pytest.raises(BridgeError, match=r"describes as 'numba:add:123', which this version .* not understand"):
            DEFINITIONS.resolve("cpu", "numba:add:123")

    def test_options_that_the_language_does_not_have(self):
        text = json.loads(code_of(numba_kernel(kernels.double, VECTOR), VECTOR).describe("cpu")[1])
        with pytest.raises(BridgeError, match="does not understand"):
            DEFINITIONS.resolve("cpu", json.dumps(text | {"options": 3}))

    def test_a_kernel_of_another_name_or_content(self):
        text = json.loads(code_of(numba_kernel(kernels.double, VECTOR), VECTOR).describe("cpu")[1])
        for change in ({"name": "twice"}, {"identity": "0"}):
            with pytest.raises(BridgeError, match=r"calls the Numba kernel .*, which this process has not defined"):
                DEFINITIONS.resolve("cpu", json.dumps(text | change))

    def test_a_kernel_that_no_other_process_can_rebuild(self):
        text = json.loads(code_of(numba_kernel(kernels.double, VECTOR), VECTOR).describe("cpu")[1])
        with pytest.raises(BridgeError, match="an object that has no content of its own"):
            DEFINITIONS.resolve("cpu", json.dumps(text | {"identity": "local-0"}))

    def test_a_kernel_of_the_same_name_that_these_types_do_not_fit_is_passed_over(self, monkeypatch):
        code = code_of(numba_kernel(kernels.double, VECTOR), VECTOR)
        _, text = code.describe("cpu")

        @numba.njit
        def double(x, out):
            out[0] = 2

        other = code_of(numba_kernel(double, VECTOR), VECTOR)
        compile_one = type(NUMBA).compile

        def refusing(self, definition, *types):
            if definition is other.definition:
                raise KernelCompileError("another kernel")
            return compile_one(self, definition, *types)

        monkeypatch.setattr(type(NUMBA), "compile", refusing)
        other.definition._compiled.clear()
        assert DEFINITIONS.resolve("cpu", text) == code.entry("cpu")
        with pytest.raises(KernelCompileError, match="another kernel"):
            DEFINITIONS.resolve("cpu", json.dumps(json.loads(text) | {"identity": "0"}))


@pytest.fixture
def published(monkeypatch):
    """The descriptions under which CUDA entries are published. Nothing is compiled: there may be no GPU."""
    found = []

    def publish(self, description, build):
        found.append((self.name, description))
        return Entry.of(description, Built(DevicePlan("none", [], [(0, 4)], [])))

    monkeypatch.setattr(type(CUDA), "publish", publish)
    return found


class TestDescriptionsOfCudaKernels:
    """A program from another process finds the code with the very options and types that it was described with."""

    @pytest.fixture(autouse=True)
    def cuda(self, monkeypatch):
        pytest.importorskip("numba.cuda", reason="numba-cuda is not installed")
        for module in ("cuda_jit", "callables"):
            found = importlib.import_module(f"bridge.languages.numba_cuda.{module}")
            monkeypatch.setattr(found, "require_cuda", lambda: None)

    def check(self, wrapper, published, target):
        code = code_of(wrapper, VECTOR)
        described, text = code.describe("cuda")
        assert described is target
        assert DEFINITIONS.resolve("cuda", text).description == text
        assert published[-1] == (target.name, text)
        description = Description.decode(text)
        assert description.signature == code.signature
        return code

    def test_a_numba_cuda_kernel(self, published):
        from bridge import numba_cuda_kernel
        from suites.unit.bridge.without_gpu import compiling

        with compiling():
            code = self.check(
                numba_cuda_kernel(numba.cuda.jit(kernels.double.py_func), VECTOR, grid=(2, 3), block=32, shared_mem=8),
                published,
                CUDA,
            )
        assert (code.options.grid, code.options.block, code.options.shared_bytes) == ((2, 3, 1), (32, 1, 1), 8)

    def test_a_numba_cuda_kernel_that_raises_is_launched_by_python(self, published):
        from bridge import numba_cuda_kernel
        from suites.unit.bridge.without_gpu import compiling

        kernel = numba.cuda.jit(debug=True, opt=False)(kernels.double.py_func)
        with compiling():
            self.check(numba_cuda_kernel(kernel, VECTOR, launch_dims=100), published, CUDA_PYTHON)

    def test_a_callable(self, published):
        from bridge import numba_cuda_callable

        def launch(x, out, stream):
            print(x, out, stream)

        self.check(numba_cuda_callable(launch, VECTOR), published, CUDA_PYTHON)

    def test_callables_that_only_look_the_same_are_told_apart(self, published):
        from bridge import numba_cuda_callable

        def define():
            def launch_one_of_two(x, out, stream):
                print(x, out, stream)

            return launch_one_of_two

        first, second = (numba_cuda_callable(define(), VECTOR) for _ in range(2))
        self.check(first, published, CUDA_PYTHON)
        texts = [code_of(wrapper, VECTOR).describe("cuda")[1] for wrapper in (first, second, first)]
        assert texts[0] == texts[2] != texts[1]
        assert '"identity":"local' in texts[1]

    def test_cuda_cpp(self, published):
        pytest.importorskip("cuda.core", reason="cuda-core is not installed")
        from bridge import cuda_raw_kernel

        scalars = (np.float32(-0.0), np.int32(3))
        code = self.check(cuda_raw_kernel("source", "f", VECTOR, launch_dims=3, scalars=scalars), published, CUDA)
        assert [scalar.content for scalar in code.options.scalars] == [scalar.tobytes() for scalar in scalars]

    def test_a_warp_kernel(self, published):
        pytest.importorskip("warp", reason="Warp is not installed")
        from bridge import jax_kernel
        from suites.unit.bridge import warp_kernels

        self.check(lambda x: jax_kernel(warp_kernels.scale)(x, 3.0), published, CUDA)


def test_a_code_is_equal_to_another_of_the_same_kernel_options_and_types():
    definition = code_of(numba_kernel(kernels.double, VECTOR), VECTOR).definition
    signature = Signature.of("double", [VECTOR], [VECTOR], (), with_extents=False)
    first, second = (NativeCode(NUMBA, definition, NoOptions(), signature) for _ in range(2))
    assert first == second
    assert hash(first) == hash(second)
    aliased = Signature.of("double", [VECTOR], [VECTOR], {0}, with_extents=False)
    assert NativeCode(NUMBA, definition, NoOptions(), aliased) != first


def test_a_native_language_says_how_it_compiles():
    with pytest.raises(TypeError, match="abstract"):
        NativeLanguage("none", {}, kernel_kind="", wrapper="", compiler="", options_type=NoOptions)


def test_two_languages_of_one_name_never_share_their_kernels():
    class Other(NativeLanguage):
        def compile(self, definition, options, signature, platform):
            raise AssertionError("nothing is compiled")

    facts = {"kernel_kind": "kernel", "wrapper": "other_kernel", "compiler": "It", "options_type": NoOptions}
    numba_kernel(kernels.add, VECTOR)
    with pytest.raises(KernelTypeError, match=r"the name of the kernel language 'numba' .* is taken .* Rename it"):
        DEFINITIONS.define(Other("numba", {"cpu": Standing.REGULAR}, **facts), "digest", lambda: None)
