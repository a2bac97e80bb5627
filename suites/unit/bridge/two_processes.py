"""Runs checks in one of two processes that ``jax.distributed`` connects, and prints what became of each.

Both compile the same programs. Where programs differ, processes with GPUs wait for each other's search for the fastest
code of XLA, for a day.
"""

import faulthandler
import hashlib
import json
import re
import runpy
import traceback
from pathlib import Path

import jax
import jax.numpy as jnp
import numba
import numpy as np
import warp as wp
from jax import lax
from jax.experimental import multihost_utils
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from bridge import BackendError, DebugError, XLACustomKernel, debug_mode, jax_kernel, numba_kernel, tune
from suites import tutorials
from suites.unit.bridge import kernels

Spec = jax.ShapeDtypeStruct
ROWS = np.arange(8 * 6, dtype=np.float32).reshape(8, 6)
ROW = np.linspace(1, 2, 6, dtype=np.float32)
COLLECTIVE = re.compile("all-gather|all-reduce|all-to-all|collective-permute|reduce-scatter")

add = numba_kernel(kernels.add, Spec((6,), np.float32))
of_rows = jax.vmap(add, (0, None))


@numba.njit
def half_written(x, out):
    for i in range(x.size):
        if x[i] != 42:
            out[i] = x[i]


@wp.kernel
def multiply(x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = x[i] * y[i]


def mesh_of(kind):
    return jax.make_mesh((jax.device_count(),), ("d",), axis_types=(kind,))


def put(mesh, array, *spec):
    return jax.make_array_from_callback(array.shape, NamedSharding(mesh, P(*spec)), lambda index: array[index])


def compiled(function, *args):
    """The program of a function, which is the same in both processes."""
    program = jax.jit(function).lower(*args).compile()
    digest = hashlib.sha256(program.as_text().encode()).digest()
    multihost_utils.assert_equal(np.frombuffer(digest, np.uint8), "the programs of the processes differ")
    return program


def check(function, *args, expected, collectives=()):
    """Both processes hold their parts of the right result, and the program has these collectives only."""
    program = compiled(function, *args)
    assert set(COLLECTIVE.findall(program.as_text())) == set(collectives)
    result = program(*args)
    for shard in result.addressable_shards:
        np.testing.assert_allclose(shard.data, np.asarray(expected)[shard.index], rtol=1e-4)


def on(kind):
    """The arguments of ``of_rows``, whose batch is split over the devices of both processes."""
    mesh = mesh_of(kind)
    return put(mesh, ROWS, "d"), put(mesh, ROW)


def matvec():
    op = XLACustomKernel("matvec", outs=lambda A, x: Spec(A.shape[:1], A.dtype))
    op.def_numba_kernel(lambda outs: numba_kernel(kernels.product, outs[0]))
    op.def_partitioning("b i, i -> b", split="b")
    op.def_vjp(
        lambda A, x, outs: (op(A, x), (A, x)),
        lambda saved, cotangents, outs: (jnp.outer(cotangents[0], saved[1]), saved[0].T @ cotangents[0]),
    )
    return op


def jit():
    mesh = mesh_of(AxisType.Auto)
    check(add, put(mesh, ROW), put(mesh, ROW), expected=2 * ROW)


def vmap_on_an_automatic_mesh():
    check(of_rows, *on(AxisType.Auto), expected=ROWS + ROW)


def vmap_on_an_explicit_mesh():
    check(of_rows, *on(AxisType.Explicit), expected=ROWS + ROW)


def shard_map_with_a_collective():
    mesh = mesh_of(AxisType.Auto)
    summed = jax.shard_map(
        lambda x, y: lax.psum(of_rows(x, y).sum(0), "d"), mesh=mesh, in_specs=(P("d"), P()), out_specs=P()
    )
    check(summed, *on(AxisType.Auto), expected=(ROWS + ROW).sum(0), collectives=["all-reduce"])


def scan():
    def function(x, y):
        return lax.scan(lambda carry, _: (of_rows(carry, y), None), x, length=3)[0]

    check(function, *on(AxisType.Auto), expected=ROWS + 3 * ROW)


def def_partitioning():
    for kind in AxisType.Auto, AxisType.Explicit:
        check(matvec(), *on(kind), expected=ROWS @ ROW)


def derivative():
    op = matvec()

    def loss(A, x):
        return (op(A, x) ** 2).sum()

    expected = 2 * ROWS.T @ (ROWS @ ROW)
    check(jax.grad(loss, 1), *on(AxisType.Explicit), expected=expected, collectives=["all-reduce"])


def parallel_numba():
    call = jax.vmap(numba_kernel(kernels.double_parallel, Spec((6,), np.float32)))
    check(call, on(AxisType.Explicit)[0], expected=2 * ROWS)


def warp():
    check(jax.vmap(lambda x, y: jax_kernel(multiply)(x, y)[0], (0, None)), *on(AxisType.Auto), expected=ROWS * ROW)


def debug_mode_names_a_finding_where_it_is():
    call = jax.jit(jax.vmap(numba_kernel(half_written, Spec((6,), np.float32))))
    found = ""
    try:
        with debug_mode():
            jax.block_until_ready(call(on(AxisType.Explicit)[0]))
    except DebugError as error:
        found = str(error)
    assert ("1 of 12 elements" in found) == (jax.process_index() == 1), found  # 42 is in row 7


def slow(backend):
    """A function that takes as many turns as its second argument says: those may differ, but not the program."""
    return lambda outs: lambda x, turns: lax.fori_loop(0, turns[backend], lambda _, y: y + jnp.sin(y) * 1e-9, x)


def scale():
    """An operator whose first backend is fast in process 0 only, and the turns of its backends in this process."""
    op = XLACustomKernel("scale", outs=lambda x, turns: Spec(x.shape, x.dtype))
    op.def_kernel("second", jax.default_backend(), slow(1))
    op.def_kernel("first", jax.default_backend(), slow(0))
    return op, np.array([1, 5000] if jax.process_index() == 0 else [5000, 1], np.int32)


def tune_of_an_operator():
    op, turns = scale()
    chosen = op.tune(ROW, turns)
    (decision,) = op.explain(ROW, turns).values()
    assert (chosen.backend, decision.backend) == ("first", "first")


def tune_of_a_function_on_arrays_of_both_processes():
    op, turns = scale()
    of_parts = jax.shard_map(
        lambda x, turns: lax.psum(op(x, turns), "d"), in_specs=P("d"), out_specs=P(), check_vma=False
    )
    mesh = mesh_of(AxisType.Explicit)
    with jax.set_mesh(mesh):
        everyone = np.concatenate([turns] * jax.local_device_count())
        arrays = put(mesh, ROWS, "d"), multihost_utils.host_local_array_to_global_array(everyone, mesh, P("d"))
        choices = tune(of_parts, *arrays)
        assert [str(each.question) for each in choices.tunings] == [
            f"scale(float32[{8 // jax.device_count()},6], int32[2])"
        ]
        assert choices.tunings[0].backend == "first"
        before = compiled(of_parts, *arrays)(*arrays)
        with choices:
            assert "first" in str(jax.make_jaxpr(of_parts)(*arrays))
            after = compiled(of_parts, *arrays)(*arrays)
            np.testing.assert_allclose(after.addressable_data(0), before.addressable_data(0), rtol=1e-4)


def tune_that_fails_in_the_first_process():
    op = XLACustomKernel("failing", outs=lambda x: Spec(x.shape, x.dtype))

    def failing(outs):
        raise RuntimeError(f"only in process {jax.process_index()}")

    op.def_kernel("failing", jax.default_backend(), failing if jax.process_index() == 0 else lambda outs: jnp.sin)
    try:
        op.tune(ROW)
    except BackendError as error:
        assert "only in process 0" in str(error)  # noqa: PT017  # pytest is not here
    else:
        raise AssertionError("tune did not raise")


def an_exception_in_one_process():
    """It is raised there. Without a collective, the other process has its part of the result."""
    call = jax.jit(jax.vmap(numba_kernel(kernels.reciprocal, Spec((6,), np.float32))))
    rows = 1 + ROWS
    rows[7, 3] = -1
    try:
        result = call(put(mesh_of(AxisType.Explicit), rows, "d"))
        for shard in result.addressable_shards:
            np.testing.assert_allclose(shard.data, 1 / rows[shard.index])
        assert jax.process_index() == 0
    except (ValueError, jax.errors.JaxRuntimeError) as error:
        # Tests use pytest.raises, but here one process raises and the other does not.
        assert (jax.process_index(), "negative input" in str(error)) == (1, True), error  # noqa: PT017


ON_GPUS = {
    each.__name__: each
    for each in (
        warp,
        tune_of_an_operator,
        tune_of_a_function_on_arrays_of_both_processes,
        tune_that_fails_in_the_first_process,
    )
}
CHECKS = ON_GPUS | {
    each.__name__: each
    for each in (
        jit,
        vmap_on_an_automatic_mesh,
        vmap_on_an_explicit_mesh,
        shard_map_with_a_collective,
        scan,
        def_partitioning,
        derivative,
        parallel_numba,
        debug_mode_names_a_finding_where_it_is,
        an_exception_in_one_process,
    )
}


def main():
    """The tutorial connects the processes, by the variables that it documents."""
    faulthandler.dump_traceback_later(300, exit=True)  # so that a check that waits for ever says where
    runpy.run_path(str(Path(tutorials.__file__).with_name("many_devices.py")))
    outcomes = {}
    for name, check in (ON_GPUS if jax.default_backend() == "gpu" else CHECKS).items():
        try:
            check()
            outcomes[name] = "right"
        except Exception:
            outcomes[name] = traceback.format_exc()
        multihost_utils.sync_global_devices(name)
    print(json.dumps(outcomes))


if __name__ == "__main__":
    main()
