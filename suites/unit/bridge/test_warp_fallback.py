"""jax_kernel with a Warp whose launches it does not understand: one warning, and Warp's own jax_kernel."""

import ctypes
import inspect
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bridge import AbiError, KernelTypeError, jax_kernel
from bridge.languages.warp.fallback import is_understood
from bridge.languages.warp.supported import check_warp
from suites.backends.warp_blocks import wp
from suites.unit.bridge import warp_kernels as kernels

X = jnp.arange(1.0, 5.0)
needs_cpu = pytest.mark.skipif(
    "block_dim" not in inspect.signature(getattr(wp, "jax_kernel", lambda: None)).parameters,
    reason=f"jax_kernel of Warp {wp.__version__} does not run on the CPU",
)


def launch_without_recording(kernel, dim, inputs=(), outputs=(), adj_inputs=(), device=None, adjoint=False):
    raise NotImplementedError


@pytest.fixture
def another_warp(monkeypatch):
    """A Warp whose launches have changed."""
    monkeypatch.setattr(wp, "launch", launch_without_recording)
    is_understood.cache_clear()
    yield
    is_understood.cache_clear()


def descriptor(*fields):
    """Something that describes arrays in another way."""
    structure = type("Descriptor", (ctypes.Structure,), {"_fields_": list(fields)})
    return lambda **options: type("Array", (), {"__ctype__": lambda self: structure()})()


def test_the_installed_warp_is_understood():
    check_warp()


class TestCheck:
    def test_a_launch_without_the_parameters(self, monkeypatch):
        monkeypatch.setattr(wp, "launch", launch_without_recording)
        with pytest.raises(
            AbiError,
            match=r"does not understand the launches of Warp .*no parameters block_dim, record_cmd, record_tape",
        ):
            check_warp()

    @pytest.mark.parametrize(
        ("fields", "message"),
        [
            ([("grad", ctypes.c_uint64)], "no 8-byte field 'data'"),
            ([("data", ctypes.c_uint64), ("shape", ctypes.c_int * 4)], "no 8-byte field 'grad'"),
            ([("data", ctypes.c_uint32), ("grad", ctypes.c_uint64)], "no 8-byte field 'data'"),
        ],
    )
    def test_an_array_that_is_described_otherwise(self, monkeypatch, fields, message):
        monkeypatch.setattr(wp, "array", descriptor(*fields))
        with pytest.raises(AbiError, match=rf"its array descriptor has {message}"):
            check_warp()

    def test_an_address_that_does_not_lie_on_a_word(self, monkeypatch):
        structure = type(
            "Descriptor",
            (ctypes.Structure,),
            {"_pack_": 1, "_fields_": [("data", ctypes.c_uint64), ("ndim", ctypes.c_int), ("grad", ctypes.c_uint64)]},
        )
        monkeypatch.setattr(wp, "array", lambda **options: type("Array", (), {"__ctype__": lambda self: structure()})())
        with pytest.raises(AbiError, match="the field 'grad' of its array descriptor does not lie on a word"):
            check_warp()

    def test_a_version_that_is_too_old(self, monkeypatch):
        monkeypatch.setattr(wp, "__version__", "1.12.1")
        with pytest.raises(AbiError, match=r"launches of Warp 1\.12\.1: it passes the bounds of a launch.* by value"):
            check_warp()


@needs_cpu
class TestFallback:
    def test_it_warns_once(self, another_warp):
        with pytest.warns(RuntimeWarning, match=r"(?s)does not understand.*jax_kernel is Warp's own") as warned:
            jax_kernel(kernels.scale)
        assert warned[0].filename == __file__
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            jax_kernel(kernels.count1, launch_dims=3)

    @pytest.mark.filterwarnings("ignore:bridge does not understand:RuntimeWarning")
    def test_results_are_right(self, another_warp):
        np.testing.assert_array_equal(jax_kernel(kernels.REVERSE["float32"])(X)[0], X[::-1])
        np.testing.assert_array_equal(jax_kernel(kernels.scale)(X, 3.0)[0], 3 * X)
        np.testing.assert_array_equal(jax_kernel(kernels.increment, in_out_argnames=["x"])(X)[0], X + 1)
        low, high = jax_kernel(kernels.extremes, num_outputs=2, launch_dims=1, output_dims=1)(X[None])
        assert (float(low[0]), float(high[0])) == (1, 4)

    @pytest.mark.filterwarnings("ignore:bridge does not understand:RuntimeWarning")
    def test_a_batch_still_runs_the_kernel_for_each_element(self, another_warp):
        xs = jnp.arange(12.0).reshape(3, 4)
        batched = jax.vmap(lambda x: jax_kernel(kernels.REVERSE["float32"])(x)[0])
        np.testing.assert_array_equal(batched(xs), xs[:, ::-1])

    @pytest.mark.filterwarnings("ignore:bridge does not understand:RuntimeWarning")
    def test_options_that_warps_own_does_not_know_are_refused(self, another_warp, monkeypatch):
        monkeypatch.setattr(wp, "jax_kernel", lambda kernel, num_outputs=1: (kernel, num_outputs))
        assert jax_kernel(kernels.scale, num_outputs=1) == (kernels.scale, 1)
        with pytest.raises(AbiError, match=r"has no options has_side_effect, block_dim\. Leave them out"):
            jax_kernel(kernels.scale, has_side_effect=True, block_dim=8)

    @pytest.mark.filterwarnings("ignore:bridge does not understand:RuntimeWarning")
    def test_what_is_no_kernel_is_refused_as_before(self, another_warp):
        with pytest.raises(KernelTypeError):
            jax_kernel(len)
