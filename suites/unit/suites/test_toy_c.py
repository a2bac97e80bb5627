"""A C language in one file and its kernels in one operator file: every check and the benchmark know them."""

import inspect

import pytest

from reports import Status, find_run, read_run
from reports.options import Exit
from suites.unit import processes
from suites.unit.bridge import toy_c

pytestmark = pytest.mark.skipif(toy_c.COMPILER is None, reason="this machine has no C compiler")

BACKEND = '''

from suites import Backend, Kernel, register_backend


@dataclass(frozen=True)
class CSource(Kernel):
    """A C function ``kernel`` of arrays of ``T``."""

    source: str

    def build(self, inputs, outs):
        kind = {"float32": "float", "float64": "double"}[str(inputs[0].dtype)]
        return c_kernel(self.source.replace("T*", f"{kind}*"), "kernel", outs)


register_backend(
    Backend(
        id="c",
        targets={"cpu": "bridge_cpu"},
        accept=lambda kernel: CSource(kernel) if isinstance(kernel, str) and "kernel" in kernel else kernel
        if isinstance(kernel, CSource)
        else None,
        expected="the source of a C function named kernel",
        cure="Pass its text.",
        missing=None if COMPILER else "no C compiler",
    )
)
'''
OPERATORS = '''
import c_language
from suites import Operator

SOURCE = """
void kernel(int64_t size, const T* x, const T* y, T* out) {
    for (int64_t i = 0; i < size; i++) out[i] = x[i] * y[i] + x[i];
}"""

RIGHT = Operator(name="grow", reference=lambda x, y: x * y + x, kernels={"c": SOURCE})
SHORT = SOURCE.replace("i < size", "i < size - 1")
WRONG = Operator(name="short", reference=lambda x, y: x * y + x, kernels={"c": SHORT})
'''


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder with the language, which is the toy language of the bridge and its backend, and the operators."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KERNEL_BRIDGE_RUNS", raising=False)
    (tmp_path / "c_language.py").write_text(inspect.getsource(toy_c) + BACKEND, encoding="utf-8")
    (tmp_path / "my_ops.py").write_text(OPERATORS, encoding="utf-8")
    return tmp_path


def test_validate_runs_every_check_on_c_kernels_and_catches_the_wrong_one():
    done = processes.run("-m", "suites", "validate", "my_ops.py", "--profile", "quick", "--jobs", "1")
    assert done.returncode == Exit.WRONG, done.stderr
    records = [record for record in read_run(find_run()) if record.cell.backend == "c"]
    right = {record.cell.mode: record.status for record in records if record.cell.operator == "grow"}
    assert {"eager", "compiled", "vmap", "scan", "export", "threads", "shard", "drawn"} <= right.keys()
    assert {*right.values()} <= {Status.PASSED, Status.SKIPPED}, right
    wrong = {record.cell.mode: record.status for record in records if record.cell.operator == "short"}
    assert wrong["compiled"] is Status.UNWRITTEN_OUTPUT


def test_bench_times_c_kernels_and_never_a_wrong_one():
    chosen = ("--dtype", "float32", "--size", "4096", "--processes", "1")
    done = processes.run("-m", "suites", "bench", "my_ops.py", *chosen)
    assert done.returncode == Exit.WRONG, done.stderr
    records = {record.cell.operator: record for record in read_run(find_run()) if record.cell.backend == "c"}
    assert records["grow"].status is Status.PASSED
    assert records["grow"].timing.median_ns > 0
    assert records["short"].timing is None
