"""A kernel never runs in the place of another one, and an unchanged kernel keeps its key in every process."""

import random
import re
import textwrap
import zlib

import jax
import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge import numba_kernel
from bridge.languages.numba_cpu.compilation import NumbaDefinition, compile_kernel
from bridge.languages.numba_cpu.lowered_code import code_of
from bridge.source import numba_notes
from bridge.source.numba_notes import notes_of
from suites.unit.bridge.dependencies import KINDS, SAME_RESULT, kernel_of
from suites.unit.processes import output

Spec = jax.ShapeDtypeStruct
X = np.arange(1, 5, dtype=np.float32)
ADDRESSES = ("cfunc", "large array", "jitclass", "guvectorize")
"""Kinds whose code may hold addresses of this process."""


def key_of(call, x=X):
    """The key by which programs name a kernel."""
    found = re.search(r"\bkey = (-?\d+)", jax.jit(call).lower(x).as_text())
    assert found is not None
    return found[1]


def wrapped(kind, value):
    return numba_kernel(kernel_of(kind, value), Spec(X.shape, X.dtype))


def is_local(call):
    return "local-" in jax.jit(call).lower(X).as_text()


@pytest.mark.parametrize("kind", KINDS)
def test_a_changed_dependency_changes_result_and_key(kind):
    keys = []
    for value in (2, 3, 2):
        call = wrapped(kind, value)
        np.testing.assert_array_equal(call(X), (2 if kind in SAME_RESULT else value) * X)
        keys.append(key_of(call))
    assert keys[0] != keys[1]
    assert keys[0] == keys[2] or is_local(call)


SCALE = 2.0


@numba.njit
def scale(x, out):
    for i in range(x.size):
        out[i] = x[i] * SCALE


@numba.njit
def scale_by_helper(x, out):
    for i in range(x.size):
        out[i] = _scaled(x[i])


@numba.njit
def _scaled(value):
    return value * SCALE


@pytest.mark.parametrize("kernel", [scale, scale_by_helper], ids=["kernel", "helper"])
def test_a_global_that_changes_between_wrapping_and_tracing_counts_when_it_is_compiled(kernel, monkeypatch):
    def fresh():
        return numba_kernel(numba.njit(kernel.py_func), Spec(X.shape, X.dtype))

    _scaled.recompile()
    early = fresh()
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    np.testing.assert_array_equal(early(X), 3 * X)
    _scaled.recompile()
    monkeypatch.setitem(globals(), "SCALE", 2.0)
    late = fresh()
    _scaled.recompile()
    np.testing.assert_array_equal(late(X), 2 * X)
    assert key_of(early) != key_of(late)
    np.testing.assert_array_equal(early(X), 3 * X)


def test_a_global_that_is_named_like_an_attribute_does_not_count():
    source = "import numba\n@numba.njit\ndef kernel(x, out):\n    for i in range(x.size):\n        out[i] = x[i]\n"
    keys = []
    for size in (1, 2):
        found = {"size": size}
        exec(source, found)
        keys.append(key_of(numba_kernel(found["kernel"], Spec(X.shape, X.dtype))))
    assert keys[0] == keys[1]


@pytest.mark.parametrize(("setting", "value"), [("LOOP_VECTORIZE", 0), ("CPU_NAME", "generic")])
def test_settings_of_numba_that_change_the_machine_code_count(setting, value, monkeypatch):
    before = key_of(wrapped("literal", 2))
    monkeypatch.setattr(numba.config, setting, value)
    assert key_of(wrapped("literal", 2)) != before


def test_each_module_names_its_own_constants():
    # Numba 0.62 names a pickled exception by its address, which another one has had in another module.
    def helper_of(text):
        @numba.njit
        def helper(v):
            if v < 0:
                raise ValueError(text)
            return v

        return helper

    one, two = helper_of("the first"), helper_of("the second")

    @numba.njit
    def kernel(x, out):
        for i in range(x.size):
            out[i] = one(x[i]) + two(x[i])

    compiled = compile_kernel(NumbaDefinition.of(kernel), (numba.float32[::1],) * 2)
    for dispatcher in (kernel, one, two):
        (overload,) = dispatcher.overloads.values()
        renamed = [re.sub(r"(pickledata\.)\w+", r"\g<1>7", note) for note in notes_of(overload.library)]
        numba_notes._lowered[overload.library] = [zlib.compress(note.encode()) for note in renamed]
    code = code_of(compiled)
    assert "pickledata" not in code
    assert "('the first',)" in code
    assert "('the second',)" in code


KEYS = textwrap.dedent(
    """
    import random, sys
    from suites.unit.bridge.test_identity import KINDS, is_local, key_of, wrapped
    kinds = sorted(KINDS)
    random.Random(int(sys.argv[1])).shuffle(kinds)
    for kind in kinds:
        call = wrapped(kind, 2)
        print(kind, "local" if is_local(call) else key_of(call), sep=": ")
    """
)


def test_unchanged_kernels_keep_their_keys_in_other_processes(tmp_path):
    (tmp_path / "keys.py").write_text(KEYS)
    first, second = (
        dict(line.split(": ") for line in output(tmp_path / "keys.py", seed, PYTHONHASHSEED=seed).splitlines())
        for seed in ("1", "2")
    )
    assert first == second
    local = {kind for kind, key in first.items() if key == "local"}
    assert local <= set(ADDRESSES)


PROGRAMS = textwrap.dedent(
    """
    import sys, jax, jax.export
    import bridge
    from suites.unit.bridge.test_identity import X, wrapped
    task, file, value, *kinds = sys.argv[1:]
    for kind in kinds:
        call = wrapped(kind, int(value))
        if task == "export":
            program = jax.export.export(jax.jit(call), disabled_checks=bridge.export_checks())(X)
            open(f"{file} {kind}", "wb").write(program.serialize())
        else:
            program = jax.export.deserialize(open(f"{file} {kind}", "rb").read())
            try:
                print(kind, float(program.call(X)[0]), sep=": ")
            except jax.errors.JaxRuntimeError as error:
                print(kind, "not defined" if "has not defined" in str(error) else error, sep=": ")
    """
)


def test_an_exported_program_runs_its_kernel_or_none(tmp_path):
    (tmp_path / "programs.py").write_text(PROGRAMS)
    kinds = ("array", "helper", "vectorize", "overload", "intrinsic", "locals of a helper", "sub-module in a helper")
    output(tmp_path / "programs.py", "export", tmp_path / "program", 2, *kinds)
    for value, expected in ((2, "2.0"), (3, "not defined")):
        printed = output(tmp_path / "programs.py", "run", tmp_path / "program", value, *kinds)
        assert dict(line.split(": ") for line in printed.splitlines()) == dict.fromkeys(kinds, expected)


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(sorted(set(KINDS) - SAME_RESULT)), st.sampled_from((2, 3))), max_size=4))
def test_kernels_that_are_made_in_any_order_keep_their_own_code(drawn):
    calls = [(wrapped(kind, value), value) for kind, value in drawn if kind != "import in the body"]
    for call, value in random.sample(calls, len(calls)):
        np.testing.assert_array_equal(call(X), value * X)
