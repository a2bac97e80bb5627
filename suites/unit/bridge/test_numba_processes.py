"""numba_kernel across processes: exported programs and the persistent compilation cache."""

import textwrap

import pytest

from suites.unit.processes import output, run

DEFINE = textwrap.dedent(
    """
    import jax, jax.numpy as jnp, numba, numpy as np, sys
    import bridge
    SCALE = 3.0
    TABLE = np.arange(4.0, dtype=np.float32)

    @numba.njit
    def helper(v):
        return v * SCALE + TABLE[1]

    @numba.njit(parallel=True)
    def kernel(x, out):
        import math
        for i in numba.prange(x.size):
            out[i] = math.floor(helper(x[i]))

    call = bridge.numba_kernel(kernel, jax.ShapeDtypeStruct((8,), np.float32))
    """
)
EXPORT = DEFINE + textwrap.dedent(
    """
    def program(x, xs):
        return call(x) + 1, jax.vmap(call)(xs)
    x, xs = jax.ShapeDtypeStruct((8,), np.float32), jax.ShapeDtypeStruct((3, 8), np.float32)
    exported = jax.export.export(jax.jit(program), disabled_checks=bridge.export_checks())(x, xs)
    open(sys.argv[1], "wb").write(exported.serialize())
    """
)
RUN = textwrap.dedent(
    """
    import sys, jax, jax.numpy as jnp, jax.export
    exported = jax.export.deserialize(open(sys.argv[1], "rb").read())
    first, second = exported.call(jnp.arange(8.0), jnp.ones((3, 8)))
    print(first.tolist(), second.shape, float(second.sum()))
    """
)


@pytest.fixture(scope="module")
def scripts(tmp_path_factory):
    """The programs as files, so that kernels have source; the first has exported its program."""
    folder = tmp_path_factory.mktemp("export")
    files = {
        "export": EXPORT,
        "run": DEFINE + RUN,
        "other": DEFINE.replace("3.0", "4.0") + RUN,
        "none": "import bridge\n" + RUN,
    }
    files["installed"] = DEFINE.replace("def kernel", "def another").replace("(kernel,", "(another,") + RUN
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    blob = folder / "program.bin"
    output(folder / "export.py", blob)
    return folder, blob


def test_an_exported_program_runs_where_the_same_kernel_is_defined(scripts):
    folder, blob = scripts
    assert output(folder / "run.py", blob) == f"{[3.0 * i + 2 for i in range(8)]} (3, 8) {4.0 * 24}"


@pytest.mark.parametrize("script", ["other", "installed"])
def test_another_kernel_is_never_run_in_its_place(scripts, script):
    folder, blob = scripts
    result = run(folder / f"{script}.py", blob)
    assert result.returncode != 0
    assert "this program calls the Numba kernel 'kernel', which this process has not defined" in result.stderr
    assert "Call numba_kernel on the same kernel" in result.stderr


def test_export_asks_for_the_checks_to_be_disabled(scripts):
    folder, _ = scripts
    path = folder / "unchecked.py"
    path.write_text(EXPORT.replace("disabled_checks=bridge.export_checks()", "disabled_checks=()"))
    result = run(path, folder / "never.bin")
    assert "bridge_cpu" in result.stderr
    assert result.returncode != 0


def test_the_persistent_cache_serves_a_fresh_process(tmp_path):
    path = tmp_path / "cached.py"
    path.write_text(
        DEFINE
        + textwrap.dedent(
            """
            jax.config.update("jax_compilation_cache_dir", sys.argv[1])
            jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
            jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
            events = []
            jax.monitoring.register_event_listener(lambda name, **_: events.append(name))
            print(jax.jit(lambda x: call(x))(jnp.arange(8.0)).tolist(), any("cache_hits" in event for event in events))
            """
        )
    )
    values = [3.0 * i + 1 for i in range(8)]
    assert [output(path, tmp_path / "cache") for _ in range(2)] == [f"{values} False", f"{values} True"]
