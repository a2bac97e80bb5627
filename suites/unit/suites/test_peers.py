"""Functions of other libraries are checked before they are timed, and stand beside the kernels, not among them."""

import collections
import pickle
import re
from pathlib import Path

import jax
import numpy as np
import pytest

from reports import Status, find_run, read_run
from reports.options import Exit
from suites import Backend, Operator, OperatorError, ops
from suites.backends import host_libraries
from suites.backends.library import Library, LibraryProgram
from suites.bench.input_rotation import InputRotation, InputTurns
from suites.bench.library_cells import judge_library, library_programs
from suites.bench.timed_selection import timed_cells
from suites.cells.case import Case
from suites.cells.runnable import require_runnable
from suites.cells.selection import Selection, SelectionError
from suites.unit import processes

PEERS = [
    Case(operator, backend, operator.dtypes[0], 4096, "cpu")
    for operator in ops.operators().values()
    for backend in operator.peers
    if "cpu" in backend.platforms and backend.missing is None and backend.library.missing() is None
]


@pytest.mark.parametrize("case", PEERS, ids=lambda case: case.id)
def test_the_peers_of_the_built_in_operators_compute_what_these_compute(case):
    verdict = judge_library(case, case.inputs())
    assert verdict.status is Status.PASSED, verdict.reason


def test_every_peer_of_numpy_and_scipy_was_tried():
    assert {case.backend.id for case in PEERS} >= {"numpy", "scipy"}
    assert len(PEERS) >= 10


def test_the_documentation_lists_the_peers_of_the_built_in_operators():
    declared = collections.defaultdict(set)
    for operator in ops.operators().values():
        for backend in operator.peers:
            declared[backend.id].add(operator.name)
    page = (Path(__file__).parents[3] / "docs" / "measuring.md").read_text(encoding="utf-8")
    section = page.partition("## Beside other libraries")[2].partition("\n## ")[0]
    rows = [line.split("|")[1:-1] for line in section.splitlines() if line.startswith("| `")]
    documented = {row[0].strip(" `"): set(re.findall(r"`(\w+)`", row[2])) for row in rows}
    assert documented == declared


def twice(x):
    return 2 * x


def doubling(function):
    return Operator(
        name="twice", reference=twice, kernels={"pallas": twice}, dtypes="float32", peers={"numpy": function}
    )


def accumulating(x):
    total = np.zeros_like(x)

    def run():
        total.__iadd__(2 * x)
        return total

    return run


def raising(x):
    raise RuntimeError("no such library function")


def writing(x):
    x[0] = 3
    return lambda: 2 * x


WRONG = {
    "another_value": (lambda x: lambda: 3 * x, Status.WRONG_VALUE, "output 0"),
    "another_shape": (lambda x: lambda: x[:1], Status.WRONG_SHAPE, "shape"),
    "results_of_the_call_before": (accumulating, Status.WRONG_VALUE, "output 0"),
    "an_exception": (raising, Status.RUNTIME_ERROR, "RuntimeError: no such library function"),
    "writes_to_an_input": (writing, Status.RUNTIME_ERROR, "read-only"),
}


@pytest.mark.parametrize(("function", "status", "reason"), WRONG.values(), ids=WRONG)
def test_a_wrong_peer_gets_a_verdict_of_its_own(function, status, reason):
    case = Case(doubling(function), Backend.NUMPY, "float32", 64, "cpu")
    verdict = judge_library(case, case.inputs())
    assert verdict.status is status
    assert reason in verdict.reason


def test_calls_in_a_loop_prepare_once_and_return_the_results_of_the_last_one():
    made, run = [], []

    def prepare(x):
        made.append(x)
        return lambda: run.append(x) or x + len(run)

    program = LibraryProgram(prepare, np.asarray, np.asarray)
    x = jax.numpy.arange(3.0)
    (result,) = program.repeated(5, [x])
    assert (len(made), len(run), result.tolist()) == (1, 5, [5, 6, 7])
    program(x)
    assert len(made) == 1
    program(x + 1)
    assert len(made) == 2


def test_a_program_that_keeps_nothing_holds_no_input():
    program = LibraryProgram(lambda x: lambda: x, np.asarray, np.asarray, keeps=False)
    program(jax.numpy.ones(3))
    assert program._last[0] == ()


def test_turns_of_inputs_prepare_before_the_first_call():
    made = []
    program = LibraryProgram(lambda x: made.append(x) or (lambda: 2 * x), np.asarray, np.asarray)
    rotation = InputRotation(program, [jax.numpy.arange(2.0)], InputTurns(3, False))
    assert len(made) == 3
    assert [rotation()[0].tolist() for _ in range(4)] == [[0, 2]] * 4
    assert len(made) == 3


def test_a_loop_of_calls_is_there_on_a_cpu_only():
    case = Case(doubling(lambda x: lambda: 2 * x), Backend.NUMPY, "float32", 64, "cpu")
    programs = library_programs(case, case.inputs())
    assert programs.warm is None
    (result,) = programs.chained(3, [jax.numpy.ones(2)])
    assert result.tolist() == [2, 2]


def test_no_profile_has_peers_unless_it_is_asked_for_them():
    def backends(**fields):
        cells = timed_cells(Selection(operators=("sum", "csr_matvec"), **fields))
        return {cell.values[0].backend.id for cell in cells if cell.values[0].backend.library is not None}

    assert backends() == backends(profile="full") == set()
    assert backends(peers=True) == {"numpy", "scipy", "brainevent"}
    assert backends(peers=True, modes=("forward+backward",)) == set()


def test_a_library_that_is_named_alone_is_answered_with_the_option():
    with pytest.raises(SelectionError, match=r"numpy is a library: bench times it with --peers\.$"):
        require_runnable(Selection(operators=("sum",), backends=("numpy",)), [])


def test_a_kernel_is_no_peer_and_a_library_no_kernel():
    fields = {"name": "twice", "reference": twice, "dtypes": "float32"}
    with pytest.raises(OperatorError, match=r"peers has 'pallas', which is no library, expected one of numpy, scipy"):
        Operator(**fields, kernels={"pallas": twice}, peers={"pallas": twice})
    with pytest.raises(OperatorError, match=r"kernels has 'numpy', which is a library, .* Pass it in peers="):
        Operator(**fields, kernels={"numpy": twice})
    with pytest.raises(OperatorError, match=r"peers\['numpy'\] is a int \(3\), expected a function of NumPy arrays"):
        Operator(**fields, kernels={"pallas": twice}, peers={"numpy": 3})


def test_a_library_that_is_not_installed_says_what_installs_it():
    missing = Library("Nothing", "no_such_module", ("no-such-distribution",), "python -m pip install it")
    assert missing.missing() == "Nothing is not installed: python -m pip install it"
    assert missing.described() == "Nothing"
    installed = host_libraries.NUMPY.library
    assert installed.missing() is None
    assert installed.described() == f"NumPy {np.__version__}"


def test_a_selection_hands_its_peers_on():
    selection = Selection(peers=True)
    assert selection.arguments()[-1] == "--kb-peers"
    assert "--kb-peers" not in Selection().arguments()
    assert selection.by_option() == {"peers": ["yes"]}
    assert pickle.loads(pickle.dumps(Backend.CUPY)) is Backend.CUPY


OPERATORS = """
import numba
from suites import Operator

@numba.njit
def cube(x, out):
    for i in range(x.size):
        out[i] = x[i] * x[i] * x[i]

OPERATOR = Operator(
    name="cube", reference=lambda x: x**3, kernels={"numba": cube}, dtypes="float32",
    peers={"numpy": lambda x: lambda: x * x * x, "scipy": lambda x: lambda: x * x, "brainevent": lambda x: lambda: x},
)
"""


def test_bench_times_a_right_peer_and_fails_for_a_wrong_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KERNEL_BRIDGE_RUNS", raising=False)
    (tmp_path / "my_ops.py").write_text(OPERATORS, encoding="utf-8")
    done = processes.run("-m", "suites", "bench", "my_ops.py", "--peers", "--size", "256", "--processes", "1")
    assert done.returncode == Exit.WRONG, done.stderr
    records = {record.cell.backend: record for record in read_run(find_run())}
    found = {name: record.status for name, record in records.items()}
    installed = Backend.BRAINEVENT.library.missing() is None
    assert found == {
        "jnp": Status.PASSED,
        "numba": Status.PASSED,
        "numpy": Status.PASSED,
        "scipy": Status.WRONG_VALUE,
        "brainevent": Status.WRONG_VALUE if installed else Status.SKIPPED,
    }
    timings = [records[name].timing for name in ("numpy", "numba")]
    assert {timing.method for timing in timings} == {"two_points"}
    assert records["numba"].run.peers["numpy"] == f"NumPy {np.__version__}"
    assert "Fastest kernels beside other libraries" in done.stdout
