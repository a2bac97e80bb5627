"""The page of kernels by language shows the code of each beside its time."""

from math import nan
from types import SimpleNamespace

from suites import Backend
from suites.sessions.languages import ADDS, OPERATORS, answers, code_of, page, section
from suites.unit.structure.house import PROJECT

FOLDER = PROJECT / "reports" / "published" / "h100"


def test_the_published_page_is_that_of_its_run():
    (run,) = FOLDER.glob("*-7ac6.jsonl.gz")
    text = page([str(run)])
    heads = [line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")]
    assert heads[:-1] == list(OPERATORS)
    assert "- `jnp`: `jax.vmap` runs, `jax.jvp` runs" in text.splitlines()
    tables = [line for line in text.splitlines() if line.startswith("|")]
    published = (FOLDER / "languages.md").read_text(encoding="utf-8").splitlines()
    assert [line.split("|")[1:5] for line in tables] == [
        line.split("|")[1:5] for line in published if line.startswith("|")
    ]


def test_code_is_counted_without_docstrings_and_empty_lines():
    code = code_of("add", "triton")
    assert code is not None
    assert code[0] == "BLOCK = 1024"
    assert not any(line.startswith('"""') or not line.strip() for line in code)
    assert code_of("add", "jnp") is None
    assert code_of("add", "jax_triton") == code
    for backend in ADDS:
        defined = {line for line in code_of("add", backend) or [] if line.startswith("def ")}
        assert {"def cutile_add(inputs, outs):"} <= defined if backend == "cutile" else {"def _cute_add():"} < defined
        assert len(defined) <= 4
    assert [line for line in code_of("matvec", "numba_cuda_mlir") or () if line.startswith("def ")] == [
        "def matvec_by_elements(A, x, out):", "def launch_by_elements(inputs, outs):"
    ]  # fmt: skip
    assert code_of("matvec", "warp_tile") == code_of("matvec", "warp")


def test_a_backend_that_is_missing_is_a_reason():
    row = {"backend": "cutlass", "status": "SKIPPED", "reason": "not installed", "ratio": nan, "median_ns": nan}
    lines = list(section("softmax", [SimpleNamespace(**row)]))
    assert lines[4:7] == ["| `cutlass` | SKIPPED |  |  |  |", "", "- `cutlass`: not installed"]


def test_transformations_are_asked_of_jax():
    assert answers("add", "numba") == "`jax.vmap` runs, `jax.jvp` raises DifferentiationError"
    missing, error = "cannot be asked here: a call raises", "`jax.vmap` raises NotImplementedError, `jax.jvp` raises"
    assert answers("add", "cutlass").startswith(missing if Backend.CUTLASS.missing() else error)
