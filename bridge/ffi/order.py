"""Makes arrays wait until other arrays have been computed, in a way that XLA cannot undo.

XLA drops optimization barriers before scheduling, and then merges identical calls. But it cannot see into a foreign
call. The call made here does nothing: its result shares the buffer of its operand. XLA copies the operand first if
anything else uses it.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numba
import numpy as np

from bridge.ffi.kernel_call import Call, bind
from bridge.ffi.native.call_frame import Arrays
from bridge.ffi.plans.device import DevicePlan
from bridge.ffi.plans.host import HostPlan
from bridge.ffi.target import CPU, CUDA, Target

_NAME = "identity"
_TARGETS = {"cpu": CPU, "cuda": CUDA}


def after(arrays: Sequence[Any], others: Sequence[Any], platform: str, label: str = "") -> list[Any]:
    """Returns the arrays once the others have been computed.

    Args:
        arrays: The arrays to return.
        others: The arrays to wait for.
        platform: The platform for which this is being lowered.
        label: XLA never merges calls with different labels, so each of them has its own copy.
    """
    if platform not in _TARGETS:
        return list(jax.lax.optimization_barrier((list(arrays), list(others)))[0])
    awaited = [other for other in others if _is_plain(other)]
    return [_after(array, awaited, label) if _is_plain(array) and array.size else array for array in arrays]


def _after(array: Any, others: Sequence[Any], label: str) -> Any:
    about = tuple((operand.ndim, np.dtype(operand.dtype).itemsize) for operand in (array, *others))
    outputs = ((array.shape, np.dtype(array.dtype)),)
    call = _IdentityCall(_NAME, outputs, aliases=((0, 0),), whole=True, operands=about, label=label)
    return bind(call, array, *others)[0]


def _is_plain(array: Any) -> bool:
    """Whether an array holds numbers, not random keys."""
    return not jnp.issubdtype(array.dtype, jax.dtypes.extended)


@dataclass(frozen=True, kw_only=True)
class _IdentityCall(Call):
    """The call, which returns its first operand.

    Attributes:
        operands: Rank and bytes of an item of each operand. The first operand is also the result.
        label: See :func:`after`.
    """

    operands: tuple[tuple[int, int], ...]
    label: str

    @property
    def platforms(self) -> tuple[str, ...]:
        return tuple(_TARGETS)

    def describe(self, platform: str) -> tuple[Target, str]:
        operands = " ".join(f"{rank}:{item_bytes}" for rank, item_bytes in self.operands)
        return _TARGETS[platform], f"{_NAME}:{self.label} {operands}"

    def entry(self, platform: str) -> int:
        target, description = self.describe(platform)
        plan, arrays = _nothing(platform), Arrays(_NAME, self.operands, self.operands[:1])
        return target.publish(description, lambda: (plan.keep(arrays), plan))


@functools.cache
def _nothing(platform: str) -> HostPlan | DevicePlan:
    """The plan that does nothing."""
    if platform == "cuda":
        return DevicePlan(())

    @numba.cfunc(numba.types.int64(*[numba.types.int64] * 5))
    def function(frame: Any, buffers: Any, data: Any, batch_rank: Any, context: Any) -> int:
        return 0

    return HostPlan(function.address, alive=function)
