"""Checks how ``tune`` chooses a backend, remembers it, and makes later calls use it."""

import ctypes
import functools
import json
import os
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bridge import BackendError, ParameterError, XLACustomKernel, use_backend
from bridge.operator.choice.candidates import Candidate, choose
from bridge.operator.choice.registry import Registry
from bridge.operator.tuning import candidate_content, winner_files
from bridge.operator.tuning import race as tuning
from bridge.operator.tuning import winners as remembering
from bridge.operator.tuning.toolchain import Toolchain
from bridge.operator.tuning.winner_files import FOLDER_VARIABLE, VARIABLE, Winner, WinnerFiles
from bridge.source.content import PROCESS_LOCAL
from suites.unit.processes import output

Spec = jax.ShapeDtypeStruct
X = jnp.arange(1.0, 5.0)
OUT = Spec((4,), np.float32)


def fast(outs, factor=2.0):
    return lambda x: factor * x


def slow(outs, factor=2.0, turns=40000):
    # Four turns bring four elements back to their places, so only the time differs.
    return lambda x: factor * jax.lax.fori_loop(0, turns, lambda _, y: jnp.roll(y, 1), x)


def wrong(outs, factor=2.0):
    return lambda x: factor * x + 1e-3


def failing(outs, **_):
    raise RuntimeError("no such instruction")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache folder, and few samples, which are enough to tell very different times apart."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)
    monkeypatch.delenv("KERNEL_BRIDGE_BACKEND", raising=False)
    monkeypatch.setattr(tuning, "ROUNDS", 5)
    return tmp_path / "cache"


@pytest.fixture
def op():
    """``slow`` is the default, so that tuning changes something."""
    op = XLACustomKernel("scale")
    op.def_kernel("slow", "cpu", slow)
    op.def_kernel("fast", "cpu", fast)
    return op


def chosen(op, **arguments):
    decision = op.explain(X, outs=OUT, **arguments)["cpu"]
    return decision.backend, decision.reason


def files(cache):
    return sorted(cache.rglob("*.json"))


class TestTune:
    def test_calls_use_the_fastest_right_backend(self, op):
        outcome = op.tune(X, outs=OUT)
        assert {trial.backend: trial.status for trial in outcome.trials} == {"slow": "slower", "fast": "chosen"}
        assert chosen(op)[0] == "fast"
        np.testing.assert_array_equal(op(X, outs=OUT), 2 * X)
        assert "cpu: fast" in str(jax.make_jaxpr(lambda x: op(x, outs=OUT))(X))

    def test_only_calls_of_the_same_shapes_dtypes_and_parameters(self, op):
        op.tune(X, outs=OUT, factor=2.0)
        assert chosen(op, factor=2.0)[0] == "fast"
        assert chosen(op, factor=3.0)[0] == "slow"
        assert chosen(op, factor=2)[0] == "slow"
        assert op.explain(jnp.ones(5), outs=Spec((5,), np.float32), factor=2.0)["cpu"].backend == "slow"
        assert op.explain(jnp.ones(4, int), outs=OUT, factor=2.0)["cpu"].backend == "slow"

    def test_a_wrong_backend_never_wins(self):
        op = XLACustomKernel("scale")
        op.def_kernel("wrong", "cpu", wrong, asdefault=True)
        op.def_jnp_kernel(slow)
        trials = {trial.backend: trial for trial in op.tune(X, outs=OUT).trials}
        assert trials["jnp"].status == "chosen"
        assert trials["wrong"].status == "wrong"
        assert trials["wrong"].microseconds is None
        assert "result 0: relative error above" in trials["wrong"].reason
        with pytest.raises(BackendError, match="no candidate gives a right result"):
            op.tune(X, outs=OUT, backends=["wrong"])
        assert op.tune(X, outs=OUT, rtol=0.01, backends="wrong").chosen.backend == "wrong"

    def test_a_failing_backend_is_listed_with_its_reason(self, op):
        op.def_kernel("failing", "cpu", failing)
        trial = op.tune(X, outs=OUT).trials[2]
        assert (trial.status, trial.reason) == ("failed", "RuntimeError: no such instruction")

    def test_the_reference_is_jnp_or_else_only_agreement_is_shown(self, op):
        outcome = op.tune(X, outs=OUT)
        assert (outcome.compared_with, outcome.proven) == ("slow", False)
        assert "agreement is all that was shown" in str(outcome)
        op.def_jnp_kernel(fast)
        outcome = op.tune(X, outs=OUT, backends=["slow"])
        assert (outcome.compared_with, outcome.proven) == ("jnp", True)

    def test_the_default_is_kept_unless_another_is_clearly_faster(self):
        fastest, default = (Candidate("cpu", name, fast) for name in ("fastest", "default"))
        checked = [tuning._Entrant(fastest), tuning._Entrant(default)]
        overlapping = {fastest: [1.0, 1.1, 1.2], default: [1.1, 1.2, 1.3]}
        trials = tuning._judge(checked, overlapping, default)
        assert [trial.status for trial in trials] == ["slower", "chosen"]
        assert trials[1].reason == "the default: fastest is not clearly faster"
        apart = {fastest: [1.0, 1.1, 1.2], default: [2.0, 2.1, 2.2]}
        assert [trial.status for trial in tuning._judge(checked, apart, default)] == ["chosen", "slower"]

    def test_a_kernel_that_changes_its_inputs_is_an_error(self, op):
        x = jnp.array(X)
        memory = (ctypes.c_float * 4).from_address(x.unsafe_buffer_pointer())

        def overwrite(_):
            memory[0] = 7.0
            return np.zeros(4, np.float32)

        op.def_kernel("overwriting", "cpu", lambda outs: lambda x: jax.pure_callback(overwrite, OUT, x))
        with pytest.raises(BackendError, match="overwriting changed its inputs"):
            op.tune(x, outs=OUT)


class TestConfigurations:
    @pytest.fixture
    def op(self):
        op = XLACustomKernel("scale")
        op.def_kernel("turning", "cpu", slow, configurations={"long": {"turns": 40000}, "short": {"turns": 4}})
        op.def_kernel("one", "cpu", lambda outs: jnp.ones_like)
        return op

    def test_the_first_is_the_default_and_a_call_may_name_another(self, op):
        for backend, turns in [(None, 40000), ("turning", 40000), ("turning:short", 4), ("turning:long", 40000)]:
            text = str(jax.jit(functools.partial(op, outs=OUT, backend=backend)).lower(X).as_text())
            assert f"dense<{turns}>" in text

    def test_preferences_and_defaults_may_name_one(self, op):
        op.set_default("cpu", "turning:short")
        assert op.defaults == {"cpu": "turning:short"}
        assert op.explain(X, outs=OUT)["cpu"].configuration == "short"
        with use_backend("warp", "turning:long"):
            assert op.explain(X, outs=OUT)["cpu"].configuration == "long"
        op.def_kernel("turning", "cpu", slow)
        assert op.defaults == {"cpu": "turning"}

    def test_tune_tries_all_of_them(self, op):
        outcome = op.tune(X, outs=OUT, backends=["turning"])
        assert [trial.reference for trial in outcome.trials] == ["turning:long", "turning:short"]
        assert op.explain(X, outs=OUT)["cpu"].configuration == outcome.chosen.configuration == "short"

    def test_an_unknown_one_is_an_error_that_lists_those_there_are(self, op):
        with pytest.raises(BackendError, match=r"'turning:none' is not .* cpu: turning \(long, short\), one\)"):
            op(X, outs=OUT, backend="turning:none")

    def test_a_parameter_comes_from_the_call_or_the_configuration(self, op):
        with pytest.raises(ParameterError, match="passes turns, but so does the configuration of turning:long"):
            op(X, outs=OUT, turns=8)


class TestPrecedence:
    def test_a_named_or_preferred_backend_comes_before_the_winner(self, op, monkeypatch):
        op.tune(X, outs=OUT)
        assert chosen(op, backend="slow") == ("slow", "named by the call")
        with use_backend("slow"):
            assert chosen(op) == ("slow", "preferred by use_backend")
        with use_backend("warp", "default"):
            assert chosen(op)[0] == "fast"
        monkeypatch.setenv("KERNEL_BRIDGE_BACKEND", "slow")
        assert chosen(op) == ("slow", "preferred by KERNEL_BRIDGE_BACKEND")

    @pytest.mark.parametrize(
        "choice",
        [
            lambda op: op.set_default("cpu", "slow"),
            lambda op: op.def_kernel("slow", "cpu", slow, asdefault=True),
        ],
    )
    def test_a_default_set_afterwards_comes_before_the_winner(self, op, choice):
        choice(op)
        op.tune(X, outs=OUT)
        assert chosen(op)[0] == "fast"
        choice(op)
        assert chosen(op) == ("slow", "made the default by set_default or asdefault")
        op.tune(X, outs=OUT)
        assert chosen(op)[0] == "fast"

    @pytest.mark.parametrize(
        "change",
        [
            lambda op: op.def_kernel("fast", "cpu", wrong),
            lambda op: op.def_kernel("fast", "cpu", fast, configurations={"a": {"factor": 3.0}}),
            lambda op: op.def_kernel("third", "cpu", fast),
            lambda op: op.forget(),
        ],
    )
    def test_a_changed_set_of_candidates_or_forget_drops_the_winner(self, op, change):
        op.tune(X, outs=OUT)
        change(op)
        assert chosen(op) == ("slow", "the first of the highest standing")

    def test_choose_decides_by_its_arguments_alone(self):
        registry = Registry("op")
        for backend in ("slow", "fast"):
            registry.register(backend, "cpu", fast, asdefault=False)
        for found, expected in [({}, "slow"), ({"cpu": "fast"}, "fast"), ({"cpu": "gone"}, "slow")]:
            assert choose(registry.snapshot, ("default",), "op", found)[0].backend == expected
        assert choose(registry.snapshot, ("slow", "default"), "op", {"cpu": "fast"})[0].backend == "slow"


class TestExplain:
    def test_reasons_without_a_winner(self):
        op = XLACustomKernel("op")
        op.def_kernel("only", "cuda", fast)
        op.def_jnp_kernel(fast)
        op.def_kernel("first", "cpu", fast)
        op.def_kernel("second", "cpu", fast)
        assert str(op.explain(Spec((4,), np.float32), outs=OUT)) == (
            "op\n"
            "  cpu: first (the first of the highest standing)\n"
            "  cuda: only (the first of the highest standing)\n"
            "  tpu: jnp (the only one)"
        )
        assert str(op.explain(X, outs=OUT, backend="only")["cpu"]) == (
            "cpu: nothing ('only', named by the call, is not registered for it)"
        )
        with pytest.raises(KeyError):
            op.explain(X, outs=OUT)["rocm"]

    def test_a_winner_is_shown_with_its_date(self, op):
        op.tune(X, outs=OUT)
        reason = op.explain(Spec((4,), np.float32), outs=OUT)["cpu"].reason
        assert reason.startswith(f"tuned {datetime.now().astimezone():%Y-}")
        assert " us on " in reason


def winners():
    return remembering.Winners("scale", Toolchain())


def winner(number, operator="scale"):
    return Winner(
        operator=operator, platform="cpu", device_kind="a", versions=Toolchain().versions(), inputs=[], outputs=[],
        parameters={}, key=f"{number:064x}", backend="fast", configuration=None, microseconds=1.0,
        tuned_at=datetime.now(UTC),
    )  # fmt: skip


class TestOnDisk:
    def again(self):
        """An operator that reads the disk, as an operator of another process does."""
        op = XLACustomKernel("scale")
        op.def_kernel("slow", "cpu", slow)
        op.def_kernel("fast", "cpu", fast)
        return op

    def test_a_winner_is_found_again(self, op, cache):
        assert op.tune(X, outs=OUT).remembered
        assert chosen(self.again())[0] == "fast"
        op.forget()
        assert files(cache) == []
        assert chosen(self.again())[0] == "slow"

    def test_winners_may_have_a_folder_of_their_own(self, op, cache, tmp_path, monkeypatch):
        op.tune(X, outs=OUT, factor=3.0)
        assert len(files(cache)) == 1
        monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "own"))
        op.tune(X, outs=OUT)
        assert len(files(cache)) == len(files(tmp_path / "own")) == 1
        assert chosen(self.again())[0] == "fast"
        assert chosen(self.again(), factor=3.0)[0] == "slow"

    @pytest.mark.parametrize("damage", [b"", b"{", b"\xff\xfe", b"[]", b'{"operator": "scale"}'])
    def test_a_damaged_file_is_ignored_with_one_warning(self, op, cache, damage):
        op.tune(X, outs=OUT)
        op.tune(X, outs=OUT, factor=3.0)
        for path in files(cache):
            if json.loads(path.read_bytes())["parameters"] == {}:
                path.write_bytes(damage)
        again = self.again()
        with pytest.warns(RuntimeWarning, match="1 of 2 remembered winners .* are damaged") as caught:
            assert chosen(again)[0] == "slow"
        assert chosen(again, factor=3.0)[0] == "fast"
        assert len(caught) == 1

    def test_winners_of_other_versions_do_not_count(self, op, cache):
        op.tune(X, outs=OUT)
        (path,) = files(cache)
        path.write_text(path.read_text().replace(jax.__version__, "0.0.1"))
        assert chosen(self.again())[0] == "slow"

    def test_a_folder_that_cannot_be_used_costs_a_warning(self, op, tmp_path, monkeypatch):
        (tmp_path / "file").write_text("")
        monkeypatch.setenv(VARIABLE, str(tmp_path / "file"))
        with pytest.warns(RuntimeWarning, match="scale: "):
            op.tune(X, outs=OUT)
        assert chosen(op)[0] == "fast"

    def test_what_has_no_content_is_remembered_by_this_process_only(self, op, cache):
        class Options:
            pass

        options = Options()

        def with_options(outs, options):
            return lambda x: 2 * x

        for backend in ("slow", "fast"):
            op.def_kernel(backend, "cpu", with_options)
        outcome = op.tune(X, outs=OUT, options=options)
        assert not outcome.remembered
        assert "this process only" in str(outcome)
        assert files(cache) == []
        assert chosen(op, options=options)[1].startswith("tuned")
        assert not chosen(op, options=Options())[1].startswith("tuned")

    def test_only_the_latest_are_kept(self, cache, monkeypatch):
        monkeypatch.setattr(winner_files, "KEPT", 3)
        remembered = winners()
        for number in range(5):
            remembered.remember(winner(number))
            os.utime(files(cache)[-1], (number, number))
        assert [int(path.stem, 16) for path in files(cache)] == [2, 3, 4]

    def test_an_operator_that_was_never_tuned_looks_once(self, op, monkeypatch):
        looks = []
        monkeypatch.setattr(winner_files.os, "listdir", lambda folder: looks.append(folder) or [])
        for _ in range(3):
            op(X, outs=OUT, factor=3.0)
            op(X, outs=OUT, factor=3.0, backend="slow")
        assert len(looks) == 1


SCALE_OP = """
import sys
import jax, jax.numpy as jnp, numba, numpy as np
from bridge import XLACustomKernel, numba_kernel
from bridge.operator import custom_kernel as kernel

def numba_generator(outs, factor):
    @numba.njit
    def scale(x, out):
        for i in range(x.size):
            out[i] = factor * x[i]
    return numba_kernel(scale, outs[0])

def turning(outs, factor):
    return lambda x: factor * jax.lax.fori_loop(0, 40000, lambda _, y: jnp.roll(y, 1), x)

op = XLACustomKernel("scale")
op.def_kernel("turning", "cpu", turning, asdefault=True)
op.def_numba_kernel(numba_generator)
op.def_jnp_kernel(lambda outs, factor: lambda x: factor * x)
x, outs = jnp.ones(4), jax.ShapeDtypeStruct((4,), np.float32)
if sys.argv[1] == "tune":
    print(op.tune(x, outs=outs, factor=2.0, backends=["numba", "turning"]).chosen.backend)
else:
    def race(*args):
        raise AssertionError("measured again")
    kernel.race = race
    op(x, outs=outs, factor=2.0)
    print(op.explain(x, outs=outs, factor=2.0)["cpu"].backend)
"""


class TestSeveralAtOnce:
    def test_a_second_process_uses_the_winner_and_measures_nothing(self, tmp_path):
        (tmp_path / "scale_op.py").write_text(SCALE_OP)
        assert output(tmp_path / "scale_op.py", "tune") == "numba"
        assert output(tmp_path / "scale_op.py", "call") == "numba"

    def test_writers_that_know_nothing_of_each_other(self, cache):
        def write(start):
            for number in range(start, start + 30):
                # It also reads the files of the others: half a file would cause a warning.
                winners().remember(winner(number))

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(write, (0, 10, 20, 30)))
        assert {int(key, 16) for key in winners().known()} == set(range(60))
        assert not list(cache.rglob("*.tmp"))

    def test_threads_that_tune_and_call(self, op):
        actions = [
            lambda: op.tune(X, outs=OUT),
            lambda: np.testing.assert_array_equal(op(X, outs=OUT), 2 * X),
            lambda: np.testing.assert_array_equal(jax.jit(lambda x: op(x, outs=OUT))(X), 2 * X),
            lambda: op.set_default("cpu", "slow"),
            lambda: op.explain(X, outs=OUT),
        ]
        start = threading.Barrier(len(actions))

        def work(action):
            start.wait()
            for _ in range(2):
                action()

        with ThreadPoolExecutor(len(actions)) as pool:
            list(pool.map(work, actions))
        op.tune(X, outs=OUT)
        assert chosen(op)[0] == "fast"


def test_hot_calls_choose_nothing_anew(op, monkeypatch):
    op(X, outs=OUT)
    monkeypatch.setattr("bridge.operator.custom_kernel.choose", None)
    monkeypatch.setattr(WinnerFiles, "read", None)
    np.testing.assert_array_equal(op(X, outs=OUT), 2 * X)


def content(value):
    return candidate_content.content_of(value, Toolchain())


class TestContent:
    """Candidates and parameters are told apart across processes by their content."""

    def test_functions_of_libraries_count_by_name(self):
        for function in (lambda x: jnp.clip(x, 0, 1), lambda x: jax.nn.relu(jnp.float32(x)), jax.vmap, np.clip, len):
            assert not content(function).startswith(PROCESS_LOCAL)
        assert content(jnp.clip) != content(jnp.sin)

    def test_what_wraps_a_function_counts_by_it(self):
        def first(x):
            return x + 1

        def second(x):
            return x + 2

        for wrap in (jax.jit, functools.cache, functools.partial, lambda f: functools.partial(f, x=3)):
            assert content(wrap(first)) == content(wrap(first))
            assert content(wrap(first)) != content(wrap(second))
            assert not content(wrap(first)).startswith(PROCESS_LOCAL)

    @pytest.mark.parametrize(("one", "other"), [(1, 1.0), (1, True), ((1,), [1]), (OUT, Spec((5,), np.float32))])
    def test_values_of_different_types_differ(self, one, other):
        assert content(one) != content(other)
        assert not content(one).startswith(PROCESS_LOCAL)

    def test_an_object_counts_by_identity(self):
        assert content(object()) != content(object())
        assert content(object()).startswith(PROCESS_LOCAL)


PROGRAM = """
import sys
import jax
address, number = sys.argv[1:]
jax.distributed.initialize(address, 2, int(number))
import jax.numpy as jnp
from bridge import BackendError
from suites.unit.bridge import test_tuning
op = test_tuning.tunable()
try:
    op.tune(test_tuning.X)
except BackendError as error:
    print(error)
print(op.explain(test_tuning.X)["cpu"].backend, op(test_tuning.X).tolist())
"""


def tunable():
    op = XLACustomKernel("tunable", outs=lambda x: Spec(x.shape, x.dtype))
    op.def_kernel("slow", "cpu", slow)
    op.def_kernel("fast", "cpu", fast)
    return op


def test_several_processes_choose_alike():
    tuned = tunable()
    assert tuned.tune(X).chosen.backend == "fast"
    assert tunable().explain(X)["cpu"].backend == "fast"  # as in any other single process
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(lambda number: output("-c", PROGRAM, address, number), range(2)))
    for number, text in enumerate(found):
        refused, chosen = text.splitlines()[-2:]
        assert f"tunable: tune was called in process {number} of 2" in refused
        assert "set_default" in refused
        assert chosen == f"slow {(2 * X).tolist()}"
