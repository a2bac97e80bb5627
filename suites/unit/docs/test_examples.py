"""The Python of the README and of the site runs, each page in a process of its own."""

import importlib.util
import shutil

import jax
import pytest

from suites.unit.docs.pages import PAGES, PROJECT, blocks
from suites.unit.processes import output

pages = pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=lambda page: page.stem)

PLATFORMS = "cuda,cpu" if jax.default_backend() == "gpu" else "cpu"
"""The platforms of this machine, the one that JAX prefers first."""

STANDS_ALONE = ("kernels",)
"""The pages that say that each of their examples runs by itself."""


RUN_EACH = "import runpy, sys; [runpy.run_path(name, run_name='__main__') for name in sys.argv[1:]]"


def run(scripts, folder, platforms):
    """Runs scripts in a process, each with names of its own, on the first of some platforms; a warning is an error."""
    names = [f"example_{number}.py" for number in range(len(scripts))]
    for name, script in zip(names, scripts, strict=True):
        (folder / name).write_text(script, encoding="utf-8")  # Warp reads the source of a kernel from its file
    # This process may hold most of a GPU's memory.
    variables = {"KERNEL_BRIDGE_RUNS": "runs", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    output("-W", "error", "-c", RUN_EACH, *names, cwd=folder, JAX_PLATFORMS=platforms, **variables)


def script_of(chosen):
    """One script of blocks, each on the lines that it has in its page."""
    lines = []
    for block in chosen:
        lines += [""] * (block.line - 1 - len(lines)) + block.code.splitlines()
    return "\n".join(lines) + "\n"


@pages
def test_the_examples_of_a_page_run_from_top_to_bottom(page, tmp_path):
    """On a machine with a GPU, JAX puts arrays there unless the page says otherwise. There is one recorded run."""
    (tmp_path / "runs").mkdir()
    shutil.copy(PROJECT / "reports/published/h200/20261129T075326-4197.jsonl.gz", tmp_path / "runs")
    examples = [block for block in blocks(page, "python") if not block.gpu and not block.file
                and (block.needs is None or importlib.util.find_spec(block.needs))]  # fmt: skip
    files = [block for block in blocks(page, "python") if block.file]
    parts = [[each] for each in examples] if page.stem in STANDS_ALONE else [examples]
    run([script_of(part) for part in (files, *parts)], tmp_path, PLATFORMS)


@pytest.mark.skipif(jax.default_backend() != "gpu", reason="there is no NVIDIA GPU")
@pages
def test_the_gpu_examples_of_a_page_run_each_by_itself(page, tmp_path):
    run([script_of([block]) for block in blocks(page, "python") if block.gpu], tmp_path, PLATFORMS)
