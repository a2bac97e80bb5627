"""An identity that XLA cannot see through: arrays in, the same arrays out, once other arrays have been computed.

XLA drops ``jax.lax.optimization_barrier`` before it schedules and merges what then is equal. It knows nothing of a
foreign call, though this one does nothing: its result shares the operand's buffer, which XLA copies first if the
operand is used otherwise too.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numba
import numpy as np

from bridge.ffi.kernel_call import ATTACH_A_RULE, Call, bind
from bridge.ffi.plans.device import DevicePlan
from bridge.ffi.plans.host import HostPlan
from bridge.ffi.target import CPU, CUDA, Entry, Target

_NAME = "identity"
_TARGETS = {"cpu": CPU, "cuda": CUDA}


def after(arrays: Sequence[Any], others: Sequence[Any], platform: str, label: str = "") -> list[Any]:
    """The arrays, available once the others have been computed.

    Args:
        arrays: What to return.
        others: What to wait for.
        platform: Where this is being lowered.
        label: Calls that differ in it are never merged into one, so that each has a copy of its own.
    """
    if platform not in _TARGETS:
        return list(jax.lax.optimization_barrier((list(arrays), list(others)))[0])
    awaited = [other for other in others if _is_plain(other)]
    return [_after(array, awaited, label) if _is_plain(array) and array.size else array for array in arrays]


def _after(array: Any, others: Sequence[Any], label: str) -> Any:
    about = tuple((operand.ndim, np.dtype(operand.dtype).itemsize) for operand in (array, *others))
    call = Call(_NAME, _Identity(about, label), ((array.shape, np.dtype(array.dtype)),), aliases=((0, 0),))
    return bind(call, array, *others)[0]


def _is_plain(array: Any) -> bool:
    """Whether an array is one of numbers, not of random keys."""
    return not jnp.issubdtype(array.dtype, jax.dtypes.extended)


@dataclass(frozen=True)
class _Identity:
    """The :class:`~bridge.ffi.kernel_call.Code` of the call.

    Attributes:
        operands: Rank and bytes of an item of each operand, the first of which is also the result.
        label: See :func:`after`.
    """

    operands: tuple[tuple[int, int], ...]
    label: str

    derivative_advice = ATTACH_A_RULE

    @property
    def platforms(self) -> tuple[str, ...]:
        return tuple(_TARGETS)

    @property
    def scratch(self) -> tuple[int, ...]:
        return ()

    def describe(self, platform: str) -> tuple[Target, str]:
        operands = " ".join(f"{rank}:{item_bytes}" for rank, item_bytes in self.operands)
        return _TARGETS[platform], f"{_NAME}:{self.label} {operands}"

    def entry(self, platform: str) -> Entry:
        target, description = self.describe(platform)
        return target.publish(description, functools.partial(self._build, platform))

    def _build(self, platform: str) -> tuple[int, Any]:
        if platform == "cuda":
            device_words, alive = DevicePlan(_NAME, self.operands, self.operands[:1], ()).words()
            return ctypes.addressof(device_words), (device_words, alive)
        words = HostPlan(_NAME, _nothing().address, self.operands, self.operands[:1]).words()
        return ctypes.addressof(words), words


@functools.cache
def _nothing() -> Any:
    """The C function of a :class:`~bridge.ffi.plans.host.HostPlan` that has nothing to do."""

    @numba.cfunc(numba.types.int64(*[numba.types.int64] * 5))
    def function(frame: Any, buffers: Any, data: Any, batch_rank: Any, context: Any) -> int:
        return 0

    return function
