"""What identifies a CUDA kernel: its compiled code, on machines without a GPU too."""

import json

import numpy as np
import pytest

from bridge import KernelCompileError
from suites.unit.processes import output

cuda = pytest.importorskip("numba.cuda", reason="numba-cuda is not installed")

from numba.cuda import types  # noqa: E402
from numba.cuda.cudadrv.linkable_code import CUSource, PTXSource  # noqa: E402

from bridge.languages.numba_cuda.cuda_compilation import code_of, compile_now  # noqa: E402
from suites.unit.bridge.without_gpu import compiling  # noqa: E402

X = types.Array(types.float32, 1, "C", readonly=True)
OUT = types.Array(types.float32, 1, "C")


def code(dispatcher, kinds=(X, OUT)):
    with compiling():
        return code_of(compile_now(dispatcher, kinds))


def device_function(value):
    @cuda.jit(device=True)
    def inner(x):
        return x * value

    @cuda.jit
    def kernel(x, out):
        out[0] = inner(x[0])

    return kernel


def global_array(value):
    scales = np.array([value, 1.0])

    @cuda.jit
    def kernel(x, out):
        out[0] = x[0] * scales[0]

    return kernel


def quotient(x, out):
    out[0] = x[0] / 3.1


KINDS = {
    "device function": device_function,
    "global array": global_array,
    "fastmath": lambda value: cuda.jit(fastmath=value > 2)(quotient),
    "launch bounds": lambda value: cuda.jit(launch_bounds=int(32 * value))(quotient),
}
"""What a kernel may depend on: a kernel by a value."""


@pytest.mark.parametrize("kind", KINDS)
def test_another_dependency_is_another_code_and_the_same_one_is_not(kind):
    first, again, other = (code(KINDS[kind](value)) for value in (2.0, 2.0, 3.0))
    assert first == again != other
    assert first is not None


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
from bridge.kernel.language import Compiled
from suites.unit.bridge.test_cuda_identity import KINDS, code
kinds = list(KINDS)
random.Random(int(sys.argv[1])).shuffle(kinds)
print(json.dumps({kind: Compiled(code(KINDS[kind](2.0)), None).identity for kind in kinds}))
"""


def test_other_processes_and_orders_of_compilation_give_the_same_code():
    found = [json.loads(output("-c", PROCESS, order, PYTHONHASHSEED=str(seed))) for order, seed in ((1, 0), (2, 12345))]
    assert found[0] == found[1]


@pytest.mark.parametrize("dtype", [types.float16, types.bfloat16])
def test_arithmetic_that_numba_links_a_source_for_compiles_to_machine_code_that_every_process_knows(dtype):
    @cuda.jit
    def multiply(x, out):
        out[0] = x[0] * x[1]

    kinds = types.Array(dtype, 1, "C", readonly=True), types.Array(dtype, 1, "C")
    assert code(multiply, kinds) is not None
    assert multiply.overloads[kinds]._codelibrary.get_cubin(cc=(9, 0)).code.startswith(b"\x7fELF")


def linked(*files):
    scale = cuda.declare_device("scale", "float32(float32)", link=list(files))

    @cuda.jit
    def kernel(x, out):
        out[0] = scale(x[0])

    return kernel


CU = 'extern "C" __device__ int scale(float* out, float x) {{ *out = {0} * x; return 0; }}'


class OnDevice:
    __cuda_array_interface__ = {  # noqa: RUF012
        "shape": (4,), "strides": None, "typestr": "<f4", "data": (0x7F0000000000, False), "version": 3,
    }  # fmt: skip


class TestLinkedFiles:
    def test_their_content_counts_with_what_they_include_and_not_their_place(self, tmp_path):
        def with_header(value):
            (tmp_path / "scale.h").write_text(f"#define SCALE {value}\n")
            return CUSource(f'#include "{tmp_path}/scale.h"\n' + CU.format("SCALE"))

        def in_a_file(value):
            path = tmp_path / f"{next(names)}.cu"
            path.write_text(CU.format(value))
            return str(path)

        names = iter("abc")
        for write in (with_header, in_a_file, lambda value: PTXSource(f"// {value}".encode())):
            first, again, other = (code(linked(write(value))) for value in (2, 2, 3))
            assert first == again != other
            assert first is not None

    def test_what_only_this_process_has_belongs_to_this_process(self):
        on_device = OnDevice()

        @cuda.jit
        def uses_memory(x, out):
            out[0] = on_device[0]

        set_up = CUSource("int x;", setup_callback=lambda module: None)
        for kernel in (uses_memory, linked(CUSource("#define NAME <a.h>\n#include NAME\n")), linked(set_up)):
            assert code(kernel) is None


class TestCudaCpp:
    @pytest.fixture(autouse=True)
    def _compiler(self):
        pytest.importorskip("cuda.core", reason="cuda-core is not installed")

    SOURCE = '#include "scale.h"\nextern "C" __global__ void f(float* out) { out[0] = SCALE; }'

    def define(self, folder, value, source=SOURCE, **options):
        from bridge.languages.cuda_raw_kernel import define

        folder.mkdir(exist_ok=True)
        (folder / "scale.h").write_text(f"#define SCALE {value}\n")
        return define(source, "f", (("include_path", (str(folder),)), *options.items()))

    def test_headers_count_by_content_and_options_by_value(self, tmp_path):
        first, again, other = (self.define(tmp_path / name, value) for name, value in (("a", 2), ("b", 2), ("c", 3)))
        assert first.code == again.code != other.code
        assert self.define(tmp_path / "c", 3) is other
        (tmp_path / "first.h").write_text("#define FIRST 1\n")
        before = self.define(tmp_path, 2, pre_include=str(tmp_path / "first.h")).code
        (tmp_path / "first.h").write_text("#define FIRST 2\n")
        assert self.define(tmp_path, 2, pre_include=str(tmp_path / "first.h")).code not in (first.code, before)

    def test_what_only_the_compiler_knows_belongs_to_this_process(self, tmp_path):
        assert self.define(tmp_path, 2, source="#define A <b.h>\n#include A\n").code is None

    def test_a_header_that_changed_since_it_was_wrapped_is_an_error(self, tmp_path):
        first = self.define(tmp_path, 2)
        assert self.define(tmp_path, 3).compile("sm_90").content != b""
        with pytest.raises(
            KernelCompileError, match=r"a file that f includes has changed .* Call cuda_raw_kernel again"
        ):
            first.compile("sm_90")
