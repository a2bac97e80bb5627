"""What several tests of the bridge need around them."""

import importlib

import jax
import pytest


@pytest.fixture
def x64():
    with jax.enable_x64(True):
        yield


@pytest.fixture
def no_gpu(monkeypatch):
    """Lets CUDA kernels be wrapped where there is no GPU to launch them on."""
    pytest.importorskip("numba.cuda", reason="numba-cuda is not installed")
    for module in ("numba_cuda_kernel", "numba_cuda_callable"):
        found = importlib.import_module(f"bridge.languages.numba_cuda.{module}")
        monkeypatch.setattr(found, "require_cuda", lambda: None)
