"""Drawn launches are accepted if they make sense, and refused otherwise."""

import functools

import jax.numpy as jnp
import numpy as np
import pytest
import warp as wp
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

from bridge import LaunchError, jax_kernel
from bridge.languages.launch_shape import Limits, check_limits, launch_shape
from suites.unit.suites import drawn_launches

# Some examples compile a program, which takes as long as a thousand that do not.
compiling = settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.too_slow], database=None)
pure = settings(deadline=None, database=None)

SIZES = (0, 1, 5, 33, 257)
FIND = settings(database=None, max_examples=2000, phases=[Phase.generate])


@pure
@given(st.data(), st.sampled_from(SIZES))
def test_launches_are_accepted_and_cover_their_size(data, size):
    shape = launch_shape("k", **data.draw(drawn_launches.launches(size)))
    check_limits("k", shape, Limits())
    assert shape.grid[0] * shape.block[0] >= size
    assert not shape.is_empty


@pure
@given(drawn_launches.senseless_launches())
def test_senseless_launches_are_refused(arguments):
    with pytest.raises(LaunchError, match=r"^k: "):
        launch_shape("k", **arguments)


@pytest.mark.parametrize("limits", [Limits(), Limits(block_threads=256, grid=(1000, 10, 10), shared_bytes=4096)])
@pure
@given(data=st.data())
def test_oversized_launches_are_refused_for_their_device_alone(limits, data):
    shape = launch_shape("k", **data.draw(drawn_launches.oversized_launches(limits)))
    with pytest.raises(LaunchError, match=r"^k: "):
        check_limits("k", shape, limits)
    most = 2**32
    check_limits("k", shape, Limits(most, (most,) * 3, (most,) * 3, most))


@functools.cache
def _negation():
    @wp.kernel
    def negate(x: wp.array(dtype=float), out: wp.array(dtype=float)):
        i = wp.tid()
        out[i] = -x[i]

    return negate


@compiling
@given(data=st.data(), size=st.sampled_from(SIZES))
def test_warp_launches_each_element_whatever_the_form_of_its_dimensions(data, size):
    dims = data.draw(drawn_launches.warp_launch_dims(size))
    (out,) = jax_kernel(_negation(), launch_dims=dims, output_dims=size)(jnp.arange(1.0, size + 1))
    assert out.tolist() == [-float(i) for i in range(1, size + 1)]


@pure
@given(drawn_launches.senseless_warp_launch_dims())
def test_senseless_launch_dims_of_warp_are_refused(dims):
    with pytest.raises(LaunchError, match="negate: launch_dims is "):
        jax_kernel(_negation(), launch_dims=dims)


@pytest.mark.parametrize(
    "wanted",
    [
        lambda launch: isinstance(launch.get("grid"), list),
        lambda launch: isinstance(launch.get("block"), np.int64),
        lambda launch: launch.get("shared_mem") == Limits().shared_bytes,
        lambda launch: launch.get("threads_per_block") == 1024,
    ],
    ids=["list", "numpy_integer", "all_shared_memory", "large_blocks"],
)
def test_launches_come_in_every_form(wanted):
    find(drawn_launches.launches(33), wanted, settings=FIND)
