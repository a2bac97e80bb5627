"""Calls leave nothing behind, however many there are."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import bridge
from bridge.ffi.target import TARGETS
from suites.dispatch.warp_add import add
from suites.dispatch.ways import SIZES, WAYS, Call

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="counted in /proc, which Linux has")

CALLS = 10_000
NOISE_BLOCKS = CALLS // 100
NOISE_BYTES = 1 << 20
"""Resident memory changes by pages, and the allocator keeps some. This is less than a 16-element array per call."""


@dataclass(frozen=True)
class Holdings:
    """The resources that a process holds.

    Attributes:
        descriptors: Open files, sockets and the like.
        entries: Compiled kernels in the tables of the FFI targets.
        blocks: Memory blocks of Python, about one per object.
        resident_bytes: Memory in use, native memory included.
    """

    descriptors: int
    entries: int
    blocks: int
    resident_bytes: int

    @classmethod
    def now(cls) -> Holdings:
        """Returns them, after a garbage collection."""
        gc.collect()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return cls(
            descriptors=len(os.listdir("/proc/self/fd")),
            entries=sum(map(len, TARGETS)),
            blocks=sys.getallocatedblocks(),
            resident_bytes=pages * os.sysconf("SC_PAGE_SIZE"),
        )

    def __sub__(self, other: Holdings) -> Holdings:
        return Holdings(*(ours - theirs for ours, theirs in zip(astuple(self), astuple(other), strict=True)))


@pytest.fixture(scope="module")
def x():
    return jax.device_put(jnp.arange(SIZES["cpu"], dtype=jnp.float32), jax.devices("cpu")[0])


def left_behind(call: Call, x: jax.Array, calls: int = CALLS) -> Holdings:
    """Returns the resources that the calls added. Some calls before them fill caches and the pools of the allocator."""
    _repeat(call, x, calls // 10)
    before = Holdings.now()
    _repeat(call, x, calls)
    return Holdings.now() - before


def _repeat(call: Call, x: jax.Array, calls: int) -> None:
    for _ in range(calls):
        call(x, x).block_until_ready()


def _path(name: str) -> Call:
    _, build = WAYS["cpu"][name]
    return build(jax.ShapeDtypeStruct((SIZES["cpu"],), jnp.float32))


def _wrapped_each_time() -> Call:
    return lambda x, y: bridge.jax_kernel(add)(x, y)[0]


def _launched_over_other_dims() -> Call:
    wrapped = bridge.jax_kernel(add)
    return lambda x, y: wrapped(x, y, launch_dims=SIZES["cpu"], output_dims=SIZES["cpu"])[0]


@pytest.mark.parametrize(
    "make",
    [lambda: _path("numba"), lambda: _path("warp-native"), _wrapped_each_time, _launched_over_other_dims],
    ids=["numba_kernel", "jax_kernel", "jax_kernel_wrapped_each_time", "jax_kernel_with_dims_each_time"],
)
def test_ten_thousand_eager_calls_leave_nothing_behind(make: Callable[[], Call], x, monkeypatch):
    call = make()
    call(x, x)
    registered: list[Any] = []
    monkeypatch.setattr(jax.ffi, "register_ffi_target", lambda *args, **_: registered.append(args))
    left = left_behind(call, x)
    assert (left.descriptors, left.entries, registered) == (0, 0, [])
    assert left.blocks < NOISE_BLOCKS
    assert left.resident_bytes < NOISE_BYTES


def test_a_result_kept_at_each_call_would_be_noticed(x):
    kept: list[jax.Array] = []

    def call(x: jax.Array, y: jax.Array) -> jax.Array:
        kept.append(x + y)
        return kept[-1]

    # Resident memory may stay the same, because these arrays can fit in memory that earlier tests have freed.
    assert left_behind(call, x).blocks >= CALLS


def test_a_file_left_open_at_each_call_would_be_noticed(x):
    opened: list[int] = []

    def call(x: jax.Array, y: jax.Array) -> jax.Array:
        opened.append(os.open(os.devnull, os.O_RDONLY))
        return x

    try:
        assert left_behind(call, x, calls=20).descriptors == 20
    finally:
        for descriptor in opened:
            os.close(descriptor)
