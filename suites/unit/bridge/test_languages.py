"""The languages as operators and newcomers see them, and what a description of one of their kernels finds again."""

import json

import jax
import msgspec
import numba
import numpy as np
import pytest

import bridge
from bridge import BridgeError
from bridge.ffi.target import CPU, CUDA
from bridge.kernel import DEFINITIONS, Signature
from bridge.languages.numba.numba_kernel import numba_kernel
from bridge.table import LANGUAGES
from suites.unit.bridge import kernels
from suites.unit.bridge.entries import call_in

Spec = jax.ShapeDtypeStruct
VECTOR = Spec((3,), np.float32)


@pytest.mark.parametrize(("platform", "interpret"), [("cpu", True), ("cuda", False), ("tpu", False)])
def test_a_generator_is_told_where_pallas_interprets(platform, interpret):
    adapted = LANGUAGES["pallas"].adapted
    assert adapted(lambda outs, interpret: interpret, platform)(outs=()) is interpret
    assert adapted(lambda outs, **options: options, platform)(outs=()) == {"interpret": interpret}


def test_calls_of_equal_ranks_share_the_machine_code_of_a_numba_kernel():
    wrapper = numba_kernel(kernels.double, lambda x: x)
    wrapper(np.ones(3, np.float32))
    entries = len(CPU)
    wrapper(np.ones(4, np.float32))
    assert len(CPU) == entries


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: "numba:add:123", r"describes as 'numba:add:123', which this version .* not understand"),
        (lambda text: json.dumps(json.loads(text) | {"identity": "local-0"}), "that has no content of its own"),
    ],
)
def test_a_description_that_fits_no_kernel(change, message):
    _, text = call_in(numba_kernel(kernels.double, VECTOR), VECTOR).describe("cpu")
    with pytest.raises(BridgeError, match=message):
        DEFINITIONS.resolve("cpu", change(text), "")


def cuda_cpp():
    pytest.importorskip("cuda.core", reason="cuda-core is not installed")
    return bridge.cuda_raw_kernel("source", "f", VECTOR, launch_dims=3, scalars=(np.float32(-0.0), np.int32(3)))


def numba_cuda():
    kernel = numba.cuda.jit(kernels.double.py_func)
    return bridge.numba_cuda_kernel(kernel, VECTOR, grid=(2, 3), block=32, shared_mem=8)


@pytest.mark.parametrize("make", [numba_cuda, cuda_cpp])
def test_a_program_finds_a_cuda_kernel_with_the_options_and_types_of_its_description(make, no_gpu, monkeypatch):
    """Nothing is compiled: there may be no GPU."""
    from suites.unit.bridge.without_gpu import compiling

    published = []
    publish = lambda self, description, build: published.append((self.name, description)) or len(published)  # noqa: E731
    monkeypatch.setattr(type(CUDA), "publish", publish)
    with compiling():
        code = call_in(make(), VECTOR)
        target, text = code.describe("cuda")
        assert target is CUDA
        assert DEFINITIONS.resolve("cuda", text, "") == len(published)
    assert published[-1] == (target.name, text)
    assert msgspec.json.decode(json.dumps(json.loads(text)["signature"]), type=Signature) == code.signature
    if make is numba_cuda:
        shape = code.options.shape
        assert (shape.grid, shape.block, shape.shared_bytes) == ((2, 3, 1), (32, 1, 1), 8)
    else:
        assert [each.word for each in code.options.scalars] == [1 << 31, 3]
