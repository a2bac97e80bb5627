"""An exported program holds its machine code, and runs where neither the kernels nor their compilers are."""

import base64
import contextlib
import ctypes
import zlib

import jax
import jax.export
import jax.numpy as jnp
import msgspec
import numba
import numpy as np
import pytest
from llvmlite import binding

from bridge import SignatureError, export_for, jax_kernel, numba_kernel, warp_callable
from bridge.cuda import carried_cubins
from bridge.errors import BridgeError
from bridge.ffi.cuda import driver
from bridge.kernel.carried import Carried
from bridge.languages.warp import cpu_plan
from suites.kernels.warp.blocks import wp
from suites.unit.bridge import test_warp_callable, toy_c, warp_kernels
from suites.unit.bridge.kernels import double_parallel, exported, like
from suites.unit.processes import output

X = np.arange(1, 5, dtype=np.float32)
SPEC = jax.ShapeDtypeStruct(X.shape, X.dtype)


@numba.njit
def thrice(x, out):
    for i in range(x.size):
        out[i] = 3 * x[i]


@numba.njit
def fibonacci(n):
    return 1 if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


@numba.njit
def with_memory(x, out):
    out[:] = np.sort(np.sqrt(x) + np.dot(x, x))[::-1] + fibonacci(5)


@numba.njit
def raises(x, out):
    if x[0] > 0:
        raise ValueError("the first element is", x[0])
    out[:] = x


@numba.njit
def half(x, out):
    for i in range(x.size):
        out[i] = x[i] + x[i]


def of_warp(x):
    return jax_kernel(warp_kernels.logistic, launch_dims=4, output_dims=4)(x[:1], x)[0]


CALLS = {
    "thrice": numba_kernel(thrice, like),
    "shared batch": lambda x: jax.vmap(numba_kernel(thrice, like, vmap_method="parallel"))(x[:, None]),
    "parallel": numba_kernel(double_parallel, like),
    "memory": numba_kernel(with_memory, like),
    "half": lambda x: numba_kernel(half, like)(x.astype(jnp.bfloat16)).astype(jnp.float32),
    "raises": numba_kernel(raises, like),
    "warp gradient": jax.grad(lambda x: of_warp(x).sum()),
}
SERVER = """
import sys

class NotHere:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("warp", "triton", "suites"):
            raise ImportError(name)

sys.meta_path.insert(0, NotHere())
import pathlib, jax, jax.export, numpy as np, bridge
for path in sorted(pathlib.Path(sys.argv[1]).iterdir()):
    try:
        result = np.asarray(jax.export.deserialize(path.read_bytes()).call(np.arange(1, 5, dtype=np.float32))).tolist()
    except jax.errors.JaxRuntimeError as error:
        result = str(error).splitlines()[0]
    print(path.name, result, sep="|")
"""


def test_a_server_has_neither_the_kernels_nor_warp(tmp_path):
    for name, call in CALLS.items():
        (tmp_path / name).write_bytes(content := exported(call, SPEC).serialize())
        assert len(content) < 30_000
    sizes = jax.ShapeDtypeStruct(jax.export.symbolic_shape("n"), jnp.float32)
    (tmp_path / "any size").write_bytes(exported(CALLS["thrice"], sizes).serialize())
    found = dict(line.split("|") for line in output("-c", SERVER, tmp_path).splitlines())
    refused = found.pop("raises")
    assert refused.startswith("INTERNAL: raises raised ValueError: ('the first element is', 1.0)")
    assert found.pop("any size") == str((3 * X).tolist())
    del (calls := dict(CALLS))["raises"]
    assert found == {name: str(np.asarray(call(X)).tolist()) for name, call in calls.items()}


def held(call, platform="cpu"):
    """What the only call of an exported program holds."""
    return held_by(exported(call, SPEC, platform=platform).mlir_module())


def held_by(module):
    text = module.partition('code = "')[2].partition('"')[0]
    return Carried.of(text), text


def test_code_for_another_processor_or_in_another_format_is_an_error_before_it_runs():
    carried, text = held(CALLS["thrice"])
    content = msgspec.msgpack.decode(carried.content)
    content["features"] += ["avx1024"]
    with pytest.raises(BridgeError, match=r"holds code of thrice for .*, but this processor lacks avx1024. Export it"):
        msgspec.structs.replace(carried, content=msgspec.msgpack.encode(content)).load()
    later = msgspec.msgpack.decode(zlib.decompress(base64.b64decode(text))) | {"format": 99}
    with pytest.raises(BridgeError, match="format 99, and this version of kernel-bridge reads format 1"):
        Carried.of(base64.b64encode(zlib.compress(msgspec.msgpack.encode(later))).decode())


COSINE = ctypes.CDLL(None).cos
COSINE.restype, COSINE.argtypes = ctypes.c_double, [ctypes.c_double]


@numba.njit
def by_address(x, out):
    out[0] = COSINE(x[0])


def test_a_program_says_why_it_holds_no_code():
    carried, _ = held(numba_kernel(by_address, like))
    assert (carried.kind, carried.content) == ("", b"it calls a function of another library by its address")
    triton = pytest.importorskip("suites.unit.bridge.test_triton", reason="needs Triton").scaled()
    if jax.default_backend() == "cpu":
        assert b"without a GPU. Name the GPUs: with bridge.export_for('sm_90')" in held(triton, "cuda")[0].content


MATRIX = wp.array2d(dtype=wp.float32)


@warp_kernels.kernel
def squared(x: MATRIX, out: MATRIX):
    tile = wp.tile_load(x, shape=(4, 4))
    wp.tile_store(out, wp.tile_matmul(tile, tile))


def test_code_that_calls_what_a_server_lacks_does_not_end_it(monkeypatch):
    call = jax_kernel(squared, launch_dims=1, output_dims=(4, 4))

    def made():
        return held(lambda x: call(x[:, None] * x)[0] + x)[0]

    assert (made().kind, made().content) == ("", b"it calls _wp_assert, a function of Warp")
    monkeypatch.setattr(cpu_plan, "taken_by", lambda content: ())
    with pytest.raises(BridgeError, match="code of squared that calls _wp_assert, which this process does not have"):
        made().load()


NEEDS = """
import bridge, jax, numba

@numba.njit
def zero(x, out):
    out[()] = 0

program = jax.export.export(jax.jit(bridge.numba_kernel(zero, lambda x: x)), disabled_checks=bridge.export_checks())
print(program(jax.ShapeDtypeStruct((), "float32")).mlir_module())
"""


def features(**environment):
    carried, _ = held_by(output("-c", NEEDS, **environment))
    return msgspec.msgpack.decode(carried.content)["features"]


def test_the_features_that_code_needs_are_those_that_it_was_compiled_with():
    named = {"NUMBA_CPU_FEATURES": "+sse4.2"}
    assert features(NUMBA_CPU_NAME="generic", **named) == ["sse4.2"]
    here = {name for name, has in binding.get_host_cpu_features().items() if has}
    assert set(features(**named)) == here  # the name of the processor stands for them


def test_a_program_is_made_for_gpus_that_this_machine_lacks(monkeypatch):
    triton = pytest.importorskip("suites.unit.bridge.test_triton", reason="needs Triton").scaled()
    with export_for("sm_80", "sm_86", "sm_90"):
        carried, _ = held(triton, "cuda")
    loaded, checked, shapes = [], [], set()
    monkeypatch.setattr(carried_cubins, "check_parameters", checked.extend)
    monkeypatch.setattr(driver, "current", contextlib.nullcontext)
    monkeypatch.setattr(driver, "load_kernel", lambda *of: loaded.append(of))
    monkeypatch.setattr(driver, "load_function", lambda kernel: 7)
    monkeypatch.setattr(carried_cubins, "check_launch", lambda name, handle, shape, *_: shapes.add(shape.block))
    monkeypatch.setattr(carried_cubins, "load_everywhere", lambda load: (load(0),))

    def launched_on(capability):
        monkeypatch.setattr(driver, "compute_capability", lambda ordinal: capability)
        return carried_cubins.plan_of(carried.name, carried.content).launches[0]

    launches = [launched_on(each) for each in (83, 87, 90)]
    assert [each.handles for each in launches] == [(7,)] * 3
    assert checked == launches  # with what the driver says
    made = msgspec.msgpack.decode(carried.content)["cubins"]
    assert loaded == [(made[each]["content"], "scale") for each in (80, 86, 90)]
    assert shapes == {(128, 1, 1)}
    with pytest.raises(BridgeError, match=r"for sm_80, sm_86, sm_90, but runs on sm_120. .*export_for\('sm_120'\)"):
        launched_on(120)
    with pytest.raises(SignatureError, match="export_for got 90, expected architectures"), export_for(90):
        pass


# Programs that hold no code run where their own kernels are defined, and none elsewhere.

ADD = "void add(int64_t size, const float* x, float* out) { for (int64_t i = 0; i < size; i++) out[i] = x[i] + 1; }"


def first_of(function):
    call = warp_callable(function)
    return lambda x: call(x)[0]


def calls():
    """By the name of its kernel: a call, which defines the kernel."""
    found = {"Warp function": first_of(test_warp_callable.stencils)}
    if toy_c.COMPILER is not None:
        found["C function 'add'"] = toy_c.c_kernel(ADD, "add", SPEC)
    return found


OTHER_PROCESS = """
import pathlib, sys
import jax, jax.export, numpy as np
import bridge

X = np.arange(1, 5, dtype=np.float32)
programs = {path.name: path.read_bytes() for path in sorted(pathlib.Path(sys.argv[1]).iterdir())}

def attempt(title):
    for name, content in programs.items():
        try:
            print(title, name, jax.export.deserialize(content).call(X).tolist(), sep="|")
        except jax.errors.JaxRuntimeError as error:
            print(title, name, str(error).partition("BridgeError: ")[2].splitlines()[0], sep="|")

attempt("nothing")
from suites.unit.bridge import test_carried, toy_c
keep = [bridge.warp_callable(test_carried.test_warp_callable.zeroes)]
if toy_c.COMPILER is not None:
    keep.append(toy_c.c_kernel(test_carried.ADD.replace("+ 1", "- 1"), "add", test_carried.SPEC))
attempt("another")
keep.append(test_carried.calls())
attempt("same")
"""


def test_a_program_without_code_runs_where_the_same_kernels_are_defined(tmp_path):
    expected = {}
    for name, call in calls().items():
        program = exported(call, SPEC)
        (tmp_path / name).write_bytes(program.serialize())
        expected[name] = str(np.asarray(program.call(X)).tolist())
    lines = [line.split("|") for line in output("-c", OTHER_PROCESS, tmp_path).splitlines()]
    found = {(title, name): said for title, name, said in lines}
    assert len(found) == 3 * len(expected)
    for name, result in expected.items():
        assert found["same", name] == result
        assert "this program calls the " in found["nothing", name]
        assert "has not defined. Call " in found["another", name]
        assert "The program does not hold its code: " in found["another", name]


def test_without_the_checks_of_the_bridge_jax_refuses_to_export():
    with pytest.raises(ValueError, match="bridge_cpu"):
        jax.export.export(jax.jit(CALLS["thrice"]), platforms=["cpu"])(SPEC)
