"""Checks that JAX's tools for debugging, profiling and ahead-of-time compilation work with kernels and operators."""

import copy
import pickle
import textwrap
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest
import warp as wp
from jax.experimental import checkify, io_callback, serialize_executable

import bridge
from suites.unit.processes import output, run

SPEC = jax.ShapeDtypeStruct((4,), np.float32)
X = jnp.arange(1.0, 5.0)
NEGATIVE, ZERO = X.at[1].set(-1.0), X.at[1].set(0.0)


@numba.njit
def numba_log(x, out):
    for i in range(x.size):
        out[i] = np.log(x[i])


@wp.kernel
def warp_log(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = wp.log(x[i])


def log_generator(outs, scale=1.0):
    return bridge.numba_kernel(numba_log, outs[0])


def like(x, **_):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def forward(x, outs, **parameters):
    return OPERATOR(x, **parameters), x


def backward(x, cotangents, outs, **_):
    return (cotangents[0] / x,)


@numba.njit
def count(x, out):
    for i in range(x.size):
        out[i] = i


COUNT = bridge.numba_kernel(count, jax.ShapeDtypeStruct((0,), np.int32))
NUMBA = bridge.numba_kernel(numba_log, SPEC)
WARP = bridge.jax_kernel(warp_log)
OPERATOR = bridge.XLACustomKernel("operator_log", outs=like)
OPERATOR.def_numba_kernel(log_generator)
OPERATOR.def_vjp(forward, backward)


@jax.custom_vjp
def differentiable_numba(x):
    return NUMBA(x)


differentiable_numba.defvjp(lambda x: (NUMBA(x), x), lambda x, g: (g / x,))


def first_of_warp(x):
    return WARP(x)[0]


@dataclass(frozen=True)
class Subject:
    """What a tool is tried on: the object of the bridge, and functions of an array that call it."""

    name: str
    wrapper: Any
    call: Any
    differentiable: Any

    def __str__(self):
        return self.name.partition("_")[0]


SUBJECTS = (
    Subject("numba_log", NUMBA, NUMBA, differentiable_numba),
    Subject("warp_log", WARP, first_of_warp, first_of_warp),
    Subject("operator_log", OPERATOR, OPERATOR, OPERATOR),
)

pytestmark = pytest.mark.parametrize("subject", SUBJECTS, ids=str)

WAYS = {
    "eager": lambda subject: subject.call,
    "jit": lambda subject: jax.jit(lambda x: subject.call(x) + 1),
    "jit itself": lambda subject: jax.jit(subject.call),
    "vmap": lambda subject: lambda x: jax.vmap(subject.call)(jnp.stack([x, x])),
    "scan": lambda subject: lambda x: jax.lax.scan(lambda c, _: (subject.call(x) + c, None), x, length=2)[0],
    "grad": lambda subject: jax.value_and_grad(lambda x: subject.differentiable(x).sum()),
    "jit of grad": lambda subject: jax.jit(jax.value_and_grad(lambda x: subject.differentiable(x).sum())),
    "checkpoint": lambda subject: jax.value_and_grad(lambda x: jax.checkpoint(subject.differentiable)(x).sum()),
    "disable_jit": lambda subject: not_jitted(subject.call),
}
"""How a subject is called, as a function of an array."""


def not_jitted(function):
    def run(x):
        with jax.disable_jit():
            return function(x)

    return run


# In JAX 0.10, the error in jax.checkpoint of any jax.jit function is an internal one.
@pytest.mark.parametrize("way", [way for way in WAYS if way != "checkpoint"])
class TestInvalidResults:
    @pytest.mark.parametrize(
        ("mode", "kind", "bad"), [(jax.debug_nans, "nan", NEGATIVE), (jax.debug_infs, "inf", ZERO)], ids=["nan", "inf"]
    )
    def test_the_kernel_is_named(self, subject, way, mode, kind, bad):
        function = WAYS[way](subject)
        name = "scan" if way == "scan" else subject.name  # JAX does not look into its loops
        with mode(True):
            function(X)
            with pytest.raises(FloatingPointError, match=rf"\({kind}\) encountered in {name}"):
                function(bad)
            function(X)

    def test_a_result_of_the_other_kind_is_no_error(self, subject, way):
        with jax.debug_infs(True):
            jax.block_until_ready(WAYS[way](subject)(NEGATIVE))


def test_an_operation_of_jax_is_blamed_for_its_own_nan(subject):
    with jax.debug_nans(True), pytest.raises(FloatingPointError, match="encountered in sqrt"):
        jax.jit(lambda x: jnp.sqrt(subject.call(x) - 10))(X)


def test_integers_and_empty_arrays_are_not_looked_at(subject):
    with jax.debug_nans(True), jax.debug_infs(True), jax.disable_jit():
        assert COUNT(jnp.zeros(0)).shape == (0,)


MODES = {
    "checking_leaks": jax.checking_leaks,
    "enable_checks": lambda: jax.enable_checks(True),
    "log_compiles": jax.log_compiles,
    "explain_cache_misses": lambda: jax.explain_cache_misses(True),
    "debug_key_reuse": lambda: jax.debug_key_reuse(True),
    "rank_promotion": lambda: jax.numpy_rank_promotion("raise"),
    "dtype_promotion": lambda: jax.numpy_dtype_promotion("strict"),
    "named_scope": lambda: jax.named_scope("scope"),
    "TraceAnnotation": lambda: jax.profiler.TraceAnnotation("annotation"),
    "StepTraceAnnotation": lambda: jax.profiler.StepTraceAnnotation("step", step_num=1),
    "debug_mode": bridge.debug_mode,
}
"""Contexts of JAX that may make an error, but change no right result."""


@pytest.mark.parametrize("way", ["eager", "vmap", "jit of grad", "disable_jit"])
@pytest.mark.parametrize("mode", MODES)
def test_a_mode_changes_no_result(subject, way, mode):
    expected = WAYS[way](subject)(X)
    jax.clear_caches()
    with MODES[mode]():
        found = WAYS[way](subject)(X)
    jax.tree.map(np.testing.assert_array_equal, found, expected)


@pytest.mark.parametrize("way", ["eager", "jit", "jit itself"])
def test_a_call_transfers_nothing(subject, way):
    function = WAYS[way](subject)
    function(X)
    with jax.transfer_guard("disallow"):
        function(X)


def compilations(function, *args):
    """The number of programs that a call compiles."""
    events = []

    def listen(name, *_, **__):
        events.append(name)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        jax.block_until_ready(function(*args))
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    return sum("backend_compile" in name for name in events)


def test_disable_jit_compiles_a_kernel_once(subject):
    function = not_jitted(subject.call)
    assert function(X).shape == X.shape
    assert compilations(function, X) == 0


def test_log_compiles_names_the_kernel(subject, caplog):
    jax.clear_caches()
    with jax.log_compiles():
        jax.jit(subject.call)(X)
    assert "Finished XLA compilation" in caplog.text


def test_the_profiler_writes_a_trace(subject, tmp_path):
    with jax.profiler.trace(str(tmp_path)):
        jax.block_until_ready(subject.call(X))
    assert list(tmp_path.rglob("*.xplane.pb"))


class TestAheadOfTime:
    def test_stages(self, subject):
        jitted = jax.jit(lambda x: subject.call(x) * 2)
        assert jax.eval_shape(jitted, SPEC) == SPEC
        assert subject.name in str(jax.make_jaxpr(jitted)(X))
        traced = jitted.trace(X)
        lowered = traced.lower()
        assert "bridge_cpu" in lowered.as_text()
        assert "_log" in lowered.as_text(debug_info=True)  # the kernel
        assert "bridge_cpu" in lowered.as_text(dialect="hlo")
        compiled = lowered.compile()
        assert "bridge_cpu" in compiled.as_text()
        assert "flops" in compiled.cost_analysis()
        assert compiled.memory_analysis().output_size_in_bytes >= X.nbytes
        np.testing.assert_array_equal(compiled(X), jitted(X))

    def test_a_jaxpr_is_evaluated(self, subject):
        closed = jax.make_jaxpr(subject.call)(X)
        (found,) = jax.extend.core.jaxpr_as_fun(closed)(X)
        np.testing.assert_array_equal(found, subject.call(X))

    def test_a_scope_names_the_call(self, subject):
        def scoped(x):
            with jax.named_scope("my_scope"):
                return subject.call(x)

        assert "my_scope" in jax.jit(scoped).lower(X).as_text(debug_info=True)

    def test_compile_time_evaluation(self, subject):
        def function(x):
            with jax.ensure_compile_time_eval():
                constant = subject.call(X)
            assert not isinstance(constant, jax.core.Tracer)
            return x + constant

        np.testing.assert_array_equal(jax.jit(function)(X), X + subject.call(X))

    def test_neighbours_that_call_python(self, subject):
        seen = []

        def function(x):
            y = subject.call(x)
            io_callback(lambda value: seen.append(np.asarray(value)), None, y, ordered=True)
            jax.debug.callback(lambda value: seen.append(np.asarray(value)), y)
            return y + jax.pure_callback(lambda value: np.asarray(value), SPEC, y)

        result = jax.block_until_ready(jax.jit(function)(X))
        jax.effects_barrier()
        np.testing.assert_array_equal(result, 2 * subject.call(X))
        assert len(seen) == 2

    def test_checkify(self, subject):
        def function(x):
            checkify.check(x[0] > 0, "not positive")
            return subject.call(x)

        error, result = jax.jit(checkify.checkify(function))(X)
        error.throw()
        np.testing.assert_array_equal(result, subject.call(X))

    def test_a_type_and_a_tree(self, subject):
        assert jax.typeof(subject.call(X)).shape == SPEC.shape
        assert jax.tree.leaves(subject.wrapper) == [subject.wrapper]
        partial = jax.tree_util.Partial(subject.call, X)
        np.testing.assert_array_equal(jax.jit(lambda function: function())(partial), subject.call(X))


class TestExecutables:
    def test_it_is_serialised_and_loaded(self, subject):
        compiled = jax.jit(subject.call).lower(X).compile()
        serialised = serialize_executable.serialize(compiled)
        devices = jax.devices("cpu")
        loaded = serialize_executable.deserialize_and_load(*serialised, backend="cpu", execution_devices=devices[:1])
        np.testing.assert_array_equal(loaded(X), compiled(X))

    def test_another_process_runs_it(self, subject, tmp_path):
        compiled = jax.jit(lambda x: subject.call(x) + 1).lower(X).compile()
        path = tmp_path / "program.pickle"
        path.write_bytes(pickle.dumps(serialize_executable.serialize(compiled)))
        assert last_line("-c", LOAD.format(define=DEFINE), path) == str((subject.call(X) + 1).tolist())

    def test_another_process_without_the_kernel_says_so(self, subject, tmp_path):
        compiled = jax.jit(lambda x: subject.call(x) + 2).lower(X).compile()
        path = tmp_path / "program.pickle"
        path.write_bytes(pickle.dumps(serialize_executable.serialize(compiled)))
        assert "Define the kernel" in run("-c", LOAD.format(define="import bridge"), path).stderr

    def test_an_exported_program_is_serialised(self, subject):
        exported = jax.export.export(jax.jit(subject.call), platforms=["cpu"], disabled_checks=bridge.export_checks())(
            X
        )
        loaded = jax.export.deserialize(exported.serialize())
        np.testing.assert_array_equal(loaded.call(X), subject.call(X))

    def test_the_persistent_cache_serves_another_process(self, subject, tmp_path):
        program = CACHED.format(name=str(subject))
        values = str(subject.call(X).tolist())
        assert [last_line("-c", program, tmp_path) for _ in range(2)] == [f"{values} False", f"{values} True"]


def last_line(*arguments):
    return output(*arguments).splitlines()[-1]  # Warp prints before


PROTOCOLS = range(2, pickle.HIGHEST_PROTOCOL + 1)  # JAX's own ShapeDtypeStruct has none of the older ones


def pickled(protocol):
    return lambda each: pickle.loads(pickle.dumps(each, protocol))


COPIES = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    **{f"pickle {protocol}": pickled(protocol) for protocol in PROTOCOLS},
    "pickle in Python": lambda each: pickle._loads(pickle._dumps(each)),  # which other packages extend
}


class TestCopies:
    @pytest.mark.parametrize("used", [False, True], ids=["new", "used"])
    @pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
    def test_a_copy_can_be_called(self, subject, copied, used):
        wrapper = fresh(subject)
        if used:
            results(wrapper, X)
            jax.jit(lambda x: results(wrapper, x))(X)
        other = copied(wrapper)
        np.testing.assert_array_equal(results(other, X), subject.call(X))
        np.testing.assert_array_equal(jax.jit(lambda x: results(other, x))(X), subject.call(X))
        np.testing.assert_array_equal(results(copied(other), X), subject.call(X))

    def test_another_process_loads_a_pickle(self, subject, tmp_path):
        path = tmp_path / "wrapper.pickle"
        path.write_bytes(pickle.dumps(subject.wrapper))
        assert last_line("-c", UNPICKLE, path) == str(subject.call(X).tolist())

    def test_a_copy_shares_the_programs(self, subject):
        wrapper = fresh(subject)
        results(wrapper, X)
        copies = [copy.deepcopy(wrapper) for _ in range(3)]
        assert compilations(lambda: [results(each, X) for each in copies]) == 0


def fresh(subject):
    """A wrapper that was not called before."""
    bridge.release()
    jax.clear_caches()
    if subject.wrapper is NUMBA:
        return bridge.numba_kernel(numba_log, SPEC, vmap_method="sequential")
    if subject.wrapper is WARP:
        return bridge.jax_kernel(warp_log, vmap_method="sequential")
    operator = bridge.XLACustomKernel("operator_log", outs=like)
    operator.def_numba_kernel(log_generator)
    return operator


def results(wrapper, x):
    return jax.tree.leaves(wrapper(x))[0]


UNPICKLE = textwrap.dedent(
    """
    import pickle, sys
    import jax, jax.numpy as jnp
    wrapper = pickle.load(open(sys.argv[1], "rb"))
    print(jax.tree.leaves(wrapper(jnp.arange(1.0, 5.0)))[0].tolist())
    """
)
DEFINE = "from suites.unit.bridge import test_jax_tools"
LOAD = textwrap.dedent(
    """
    import pickle, sys
    import jax.numpy as jnp
    from jax.experimental import serialize_executable
    {define}
    program = pickle.load(open(sys.argv[1], "rb"))
    print(serialize_executable.deserialize_and_load(*program)(jnp.arange(1.0, 5.0)).tolist())
    """
)
CACHED = textwrap.dedent(
    """
    import sys
    import jax
    from suites.unit.bridge.test_jax_tools import SUBJECTS, X
    jax.config.update("jax_compilation_cache_dir", sys.argv[1])
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    events = []
    jax.monitoring.register_event_listener(lambda name, **_: events.append(name))
    (subject,) = (each for each in SUBJECTS if str(each) == "{name}")
    print(jax.jit(subject.call)(X).tolist(), any("cache_hits" in event for event in events))
    """
)
