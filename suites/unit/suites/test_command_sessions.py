"""Whole sessions of ``kernel-bridge`` in processes of their own: what they print, and how they go on afterwards."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from reports import Status, find_run, load_run
from reports.options import Exit
from suites.unit.processes import environment, output
from suites.unit.suites.git_repositories import OPERATORS

ONE = ["--processes", "1"]
"""The options with which one process times the cells: what is said and written does not depend on more."""


@pytest.fixture(autouse=True)
def operators(folder):
    """The folder to type commands in has a file of operators."""
    Path("ops.py").write_text(OPERATORS)


def started(*arguments, **variables):
    """A command in a process of its own."""
    # A shell has its background jobs ignore Ctrl-C, and so do the processes that they start, unless told otherwise.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return subprocess.Popen(
            [sys.executable, "-m", "suites", *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=environment(**({"COLUMNS": "100"} | variables)), text=True, start_new_session=True,
        )  # fmt: skip
    finally:
        signal.signal(signal.SIGINT, before)


def ended(*arguments, **variables):
    """The exit code and the output of a command."""
    with started(*arguments, **variables) as process:
        output, errors = process.communicate(timeout=300)
    return process.returncode, output, errors


def goes_on(errors, code):
    """Types the line that an interrupted session shows, twice: then every cell has passed, and once."""
    assert code == Exit.COULD_NOT_RUN, errors
    (line,) = re.findall(r"^    (kernel-bridge .* --resume .*)$", errors, re.MULTILINE)
    before = load_run(find_run()).records
    assert {record.status for record in before} <= {Status.PASSED, Status.SKIPPED}
    for _ in range(2):  # the second time nothing is left
        code, output, errors = ended(*shlex.split(line)[1:])
        assert code == Exit.FINE, output + errors
    records = load_run(find_run()).records
    assert len({record.cell.key for record in records}) == len(records) > len(before)
    assert {record.status for record in records} <= {Status.PASSED, Status.SKIPPED}
    return len(before), len(records)


def test_an_interrupted_bench_leaves_its_records_and_no_folder_and_goes_on(tmp_path):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    arguments = ["bench", "ops.py", "--size", 64, "--size", 128, "--size", 256, *ONE]
    with started(*arguments, TMPDIR=str(temporary)) as process:
        assert process.stderr.readline().startswith("kernel-bridge: timing the quick profile on cpu")
        for line in process.stderr:
            if re.search(r"twice +f32 +64 +numba", line):
                break
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=120)
    assert "interrupted; " in errors
    assert "Summary of cpu" in output
    assert list(temporary.iterdir()) == []
    before, after = goes_on(errors, process.returncode)
    assert 1 <= before < after == 6


def has_begun():
    """Waits until a validation has recorded a cell."""
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline and not any('"PASSED"' in run.read_text() for run in Path("runs").glob("*")):
        time.sleep(0.05)


VALIDATE = ("validate", "ops.py", "--profile", "quick", "--jobs", "1")


def test_an_interrupted_validation_records_no_crash_and_goes_on():
    with started(*VALIDATE) as process:
        has_begun()
        # The program `timeout` ends all processes of a group, and a worker may be the first of them.
        for worker in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
            os.kill(int(worker), signal.SIGTERM)
        time.sleep(1)
        os.killpg(process.pid, signal.SIGTERM)
        _, errors = process.communicate(timeout=120)
    goes_on(errors, process.returncode)


def test_an_operator_without_a_kernel_for_the_device_is_not_fine():
    Path("ops.py").write_text(
        OPERATORS + "from numba import cuda\n\n@cuda.jit\ndef on_gpu(x, out):\n"
        "    out[cuda.grid(1)] = 2 * x[cuda.grid(1)]\n\n"
        "GPU = Operator(name='on_gpu', reference=lambda x: 2 * x, kernels={'numba_cuda': on_gpu})\n"
    )
    code, output, errors = ended("bench", "ops.py", "--size", 64, *ONE)
    assert code == Exit.COULD_NOT_RUN
    assert "no kernel of on_gpu ran on cpu" in errors
    assert re.search(r"twice +f32 +64 ", output)


def test_nothing_of_the_users_configuration_reaches_a_session(tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --nonsense\n")
    (tmp_path / "conftest.py").write_text("raise RuntimeError('hers')\n")
    for package in ("reports", "suites", "xdist"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("raise RuntimeError('hers')\n")
    (tmp_path / "random.py").write_text("raise SystemExit('hers')\n")
    program = "from suites.commands.command_line import main; raise SystemExit(main())"
    temporary, kept = tmp_path / "temporary", []
    temporary.mkdir()
    variables = {
        "PYTEST_ADDOPTS": "--nonsense", "PYTEST_PLUGINS": "nonsense", "TMPDIR": str(temporary),
        "KERNEL_BRIDGE_CACHE_DIR": str(tmp_path / "cache"),
    }  # fmt: skip
    for arguments in (
        ["bench", "ops.py", "--size", "64", *ONE],
        ["validate", "ops.py", "--profile", "quick", "--jobs", "1", "--", "-k", "compiled"],
    ):
        output("-P", "-c", program, *arguments, **variables)
        kept.append([path.name for path in sorted((tmp_path / "cache").rglob("*"))])
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]
    assert [path.name for path in temporary.iterdir() if path.name.startswith("kernel-bridge")] == []
    # The machine code of handlers outlives a session, and nothing else does. A kernel that raises nothing needs one.
    assert kept[0] == kept[1]
    assert [name.partition("-")[0] for name in kept[0]] == ["native", "bridge_cpu"]


def test_a_session_prints_the_format_alone_its_lines_fit_the_terminal_and_a_wrong_peer_fails_it():
    name = "a_name_as_long_as_that_of_csr_binary_matvec"
    peers = 'peers={"numpy": lambda x: lambda: 2 * x, "scipy": lambda x: lambda: x * x}'
    operators = OPERATORS.replace('name="twice"', f'name="{name}"').replace("dtypes=", f"{peers}, dtypes=")
    Path("ops.py").write_text(operators)
    shown_as = ["--format", "json", "--summary", "summary.md"]
    code, output, errors = ended("bench", "ops.py", "--peers", "--size", 1048576, *ONE, *shown_as, COLUMNS="80")
    assert code == Exit.WRONG
    statuses = {row["backend"]: row["status"] for row in json.loads(output)}
    assert statuses == {"jnp": "PASSED", "numba": "PASSED", "numpy": "PASSED", "scipy": "WRONG_VALUE"}
    records = {record.cell.backend: record for record in load_run(find_run()).records}
    assert {records[each].timing.method for each in ("numpy", "numba")} == {"two_points"}
    assert records["numba"].run.peers["numpy"] == f"NumPy {np.__version__}"
    assert "<details><summary>Cells on cpu" in Path("summary.md").read_text(encoding="utf-8")
    lines = [line for line in errors.splitlines() if re.search(rf"{name[:10]}.* [nµm]s$", line)]
    assert lines
    assert max(map(len, lines)) <= 80


def test_a_reference_that_fails_its_own_bound_is_said_and_tables_take_the_width():
    doubtful = 'name="doubtful", truth=lambda x: Expected(3.0 * x, x.dtype, abs(x) * 1e-7)'
    Path("ops.py").write_text("from suites import Expected\n" + OPERATORS.replace('name="twice"', doubtful))
    more = ["--jobs", 0, "--", "-k", "compiled and 2100"]
    code, output, _ = ended("validate", "ops.py", *more, COLUMNS="70")
    assert code == Exit.WRONG
    assert "doubtful: jnp fails too. The reference or its error bound may be wrong; see docs/bounds.md" in output
    (failure,) = [line for line in output.splitlines() if line.startswith("doubtful numba float32: is wrong")]
    assert "inputs: x: float32[2100], x[" in failure
    grid = output.partition("Validation on cpu")[2]
    assert max(len(line) for line in grid.splitlines() if line.startswith("  ")) <= 70
