"""What identifies a CUDA kernel: its compiled code, on machines without a GPU too."""

import gc
import json
import linecache
import weakref

import numpy as np
import pytest

from suites.unit.bridge import cuda_sources
from suites.unit.processes import output

cuda = pytest.importorskip("numba.cuda", reason="numba-cuda is not installed")

from numba.cuda import types  # noqa: E402
from numba.cuda.cudadrv.linkable_code import CUSource, LinkableCode, PTXSource  # noqa: E402

from bridge.languages.numba_cuda.cuda_compilation import code_of, compile_now  # noqa: E402
from bridge.languages.numba_cuda.launcher import launcher_of  # noqa: E402
from suites.unit.bridge.without_gpu import compiling  # noqa: E402

X = types.Array(types.float32, 1, "C", readonly=True)
OUT = types.Array(types.float32, 1, "C")


def code(dispatcher):
    with compiling():
        return code_of(compile_now(dispatcher, (X, OUT)))


def dispatcher_of(kind, value):
    source = cuda_sources.source_of(kind, value)
    name = f"<{kind} {value}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    namespace = {"__name__": "drawn"}
    exec(compile(source, name, "exec"), namespace)
    return namespace["kernel"]


@pytest.mark.parametrize("kind", cuda_sources.KINDS)
def test_another_dependency_is_another_code_and_the_same_one_is_not(kind):
    first, again, other = (code(dispatcher_of(kind, value)) for value in (2.0, 2.0, 3.0))
    assert first is not None
    assert first != other
    assert first == again


def test_the_message_of_an_exception_counts_for_it_is_not_in_the_machine_code():
    def raising(message):
        @cuda.jit(debug=True, opt=False)
        def kernel(x, out):
            if x[0] < 0:
                raise ValueError(message)
            out[0] = x[0]

        return kernel

    first, again, other = (code(raising(message)) for message in ("one", "one", "other"))
    assert first == again != other


PROCESS = """
import json, random, sys
from bridge.languages.compiled_kernel import Compiled
from suites.unit.bridge import cuda_sources
from suites.unit.bridge.test_cuda_identity import code, dispatcher_of
kinds = list(cuda_sources.KINDS)
random.Random(int(sys.argv[1])).shuffle(kinds)
print(json.dumps({kind: Compiled(code(dispatcher_of(kind, 2.0)), None).identity for kind in kinds}))
"""


def test_other_processes_and_orders_of_compilation_give_the_same_code():
    found = [json.loads(output("-c", PROCESS, order, PYTHONHASHSEED=str(seed))) for order, seed in ((1, 0), (2, 12345))]
    assert found[0] == found[1]


def test_a_global_array_on_the_device_belongs_to_this_process():
    class OnDevice:
        def __init__(self):
            self.__cuda_array_interface__ = {
                "shape": (4,), "strides": None, "typestr": "<f4", "data": (0x7F0000000000, False), "version": 3,
            }  # fmt: skip

    on_device = OnDevice()

    @cuda.jit
    def kernel(x, out):
        out[0] = on_device[0]

    assert code(kernel) is None


def linked(files):
    from numba.cuda import declare_device

    scale = declare_device("scale", "float32(float32)", link=files)

    @cuda.jit
    def kernel(x, out):
        out[0] = scale(x[0])

    return kernel


CU = '#include "{header}"\nextern "C" __device__ int scale(float* out, float x) {{ *out = SCALE * x; return 0; }}'


class TestLinkedFiles:
    def test_an_edited_header_of_a_linked_source_is_another_code(self, tmp_path):
        header = tmp_path / "scale.h"

        def write(value):
            header.write_text(f"#define SCALE {value}\n")
            return CUSource(CU.format(header=header))

        first, again, other = (code(linked([write(value)])) for value in (2, 2, 3))
        assert first == again != other

    def test_the_content_of_a_file_counts_and_not_its_place(self, tmp_path):
        def write(name, value):
            path = tmp_path / name
            path.write_text(CU.replace('#include "{header}"', "").replace("SCALE", str(value)))
            return str(path)

        first, again, other = (code(linked([write(*of)])) for of in (("a.cu", 2), ("b.cu", 2), ("c.cu", 3)))
        assert first == again != other

    def test_a_kernel_that_was_linked_before_is_linked_again(self, tmp_path):
        header = tmp_path / "scale.h"
        header.write_text("#define SCALE 2\n")
        kernel = linked([CUSource(CU.format(header=header))])
        with compiling():
            before = kernel.compile((X, OUT))
        header.write_text("#define SCALE 3\n")
        with compiling():
            compiled = compile_now(kernel, (X, OUT))
            assert compiled is not before
            assert compile_now(kernel, (X, OUT)) is compiled

    def test_code_in_memory_counts_by_content(self):
        first, again, other = (code(linked([PTXSource(f"// {value}".encode())])) for value in (2, 2, 3))
        assert first == again != other

    def test_a_source_that_computes_its_includes_belongs_to_this_process(self):
        assert code(linked([CUSource("#define NAME <a.h>\n#include NAME\n")])) is None

    def test_a_function_that_sets_the_module_up_belongs_to_this_process(self):
        class Source(CUSource):
            pass

        source: LinkableCode = Source("int x;", setup_callback=lambda module: None)
        assert code(linked([source])) is None


class TestCudaCpp:
    @pytest.fixture(autouse=True)
    def _compiler(self):
        pytest.importorskip("cuda.core", reason="cuda-core is not installed")

    SOURCE = '#include "scale.h"\nextern "C" __global__ void f(float* out) { out[0] = SCALE; }'

    def define(self, folder, value, source=SOURCE, **options):
        from bridge.languages.cuda_cpp import define

        folder.mkdir(exist_ok=True)
        (folder / "scale.h").write_text(f"#define SCALE {value}\n")
        return define(source, "f", (("include_path", (str(folder),)), *options.items()))

    def test_a_header_counts_by_content(self, tmp_path):
        first, again, other = (
            self.define(tmp_path / name, value).code for name, value in (("a", 2), ("b", 2), ("c", 3))
        )
        assert first is not None
        assert first == again != other

    def test_an_edited_header_makes_another_kernel(self, tmp_path):
        first = self.define(tmp_path, 2)
        second = self.define(tmp_path, 3)
        assert first is not second
        assert self.define(tmp_path, 3) is second
        assert second.compile("sm_90").content != b""

    def test_a_header_that_changed_since_it_was_wrapped_is_an_error(self, tmp_path):
        from bridge import KernelCompileError

        first = self.define(tmp_path, 2)
        self.define(tmp_path, 3)
        with pytest.raises(
            KernelCompileError, match=r"a file that f includes has changed .* Call cuda_raw_kernel again"
        ):
            first.compile("sm_90")

    def test_options_count_and_computed_includes_belong_to_this_process(self, tmp_path):
        plain = self.define(tmp_path, 2).code
        assert self.define(tmp_path, 2, define_macro="X=1").code != plain
        assert self.define(tmp_path, 2, use_fast_math=True).code != plain
        assert self.define(tmp_path, 2, pch=True).code is None
        assert self.define(tmp_path, 2, source="#define A <b.h>\n#include A\n").code is None
        (tmp_path / "first.h").write_text("#define FIRST 1\n")
        before = self.define(tmp_path, 2, pre_include=str(tmp_path / "first.h")).code
        (tmp_path / "first.h").write_text("#define FIRST 2\n")
        assert self.define(tmp_path, 2, pre_include=str(tmp_path / "first.h")).code not in (plain, before)

    def test_the_grid_barrier_is_found_in_what_a_function_calls(self):
        from bridge.languages.cuda_cpp import synchronises_grid

        ptx = """
.func  (.param .b32 r) deep(.param .b64 p);
.visible .func  (.param .b32 r) deep(
	.param .b64 p
)
{
	mov.u32 %r2, %envreg2;
}
.visible .entry calls(.param .b64 p) { {
	call.uni (r), deep, (p);
	} // calls
}
// .globl deep
.visible .entry plain(.param .b64 p) {
	ret;
}
"""
        assert [synchronises_grid(ptx, name) for name in ("calls", "plain", "deep")] == [True, False, True]
        table = ".global .u64 table[1] = {deep};"
        assert synchronises_grid(ptx + table, "plain")


def test_a_kernel_that_is_dropped_leaves_nothing_behind():
    def define():
        @cuda.jit
        def kernel(x, out):
            out[0] = x[0]

        launcher_of(kernel)
        code(kernel)
        return weakref.ref(kernel), weakref.ref(launcher_of(kernel))

    define()
    gc.collect()
    kept = [define() for _ in range(3)]
    gc.collect()
    assert [reference() for references in kept for reference in references] == [None] * 6


def test_one_kernel_has_one_launcher():
    @cuda.jit
    def kernel(x, out):
        out[0] = x[0]

    assert launcher_of(kernel) is launcher_of(kernel)


def test_the_code_of_a_kernel_is_the_code_that_was_compiled():
    scales = np.array([2.0, 1.0])

    @cuda.jit
    def kernel(x, out):
        out[0] = x[0] * scales[0]

    first = code(kernel)
    scales[0] = 3.0
    assert code(kernel) == first
