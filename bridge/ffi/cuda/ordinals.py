"""Lists the GPUs that JAX uses in this process, by their ordinals in the CUDA driver."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import jax


def local_ordinals() -> list[int]:
    """Ordinals of JAX's local GPUs, in ascending order. JAX may use a part of the machine's GPUs.

    Raises:
        RuntimeError: JAX has no GPU.
    """
    return sorted(device.local_hardware_id for device in jax.local_devices(backend="cuda"))


def handles_table(handles: Mapping[int, int]) -> tuple[int, ...]:
    """Function handles as a table by ordinal, for :class:`~bridge.ffi.plans.device.Launch`; 0 stands for no handle."""
    return tuple(handles.get(ordinal, 0) for ordinal in range(max(handles) + 1))


def load_everywhere(load: Callable[[int], int]) -> tuple[int, ...]:
    """Calls ``load`` with the ordinal of each of JAX's local GPUs; returns the table of the handles."""
    return handles_table({ordinal: load(ordinal) for ordinal in local_ordinals()})
