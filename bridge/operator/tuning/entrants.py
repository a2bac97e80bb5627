"""Decides where a race may be held, which candidates take part in it, and which one gives the right results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from bridge.agreement import REFERENCE_BACKEND
from bridge.errors import BackendError, SignatureError
from bridge.operator.choice.candidates import Candidate, candidate, candidates
from bridge.operator.choice.registry import Snapshot


def check_alone(name: str) -> None:
    """Raises BackendError if this is one of several processes, which would measure and choose each for itself."""
    if jax.process_count() > 1:
        raise BackendError(
            f"{name}: tune was called in process {jax.process_index()} of {jax.process_count()}, which might choose "
            "another kernel than the others, but their programs must be the same. Tune in a single process, and call "
            "set_default with its choice in all of them."
        )


def device_of(args: Sequence[Any], name: str) -> tuple[list[jax.Array], jax.Device]:
    """The arguments as arrays on a device, and that device.

    Raises:
        SignatureError: An argument is traced or no array, or they lie on several devices.
    """
    for index, arg in enumerate(args):
        if isinstance(arg, jax.core.Tracer):
            raise SignatureError(
                f"{name}: argument {index} of tune is a traced value ({jax.typeof(arg)}), but tuning runs and times "
                "the kernels. Call tune outside of jax.jit and other transformations, on arrays; the traced calls of "
                "the same shapes use what it finds."
            )
        if isinstance(arg, jax.ShapeDtypeStruct):
            raise SignatureError(
                f"{name}: argument {index} of tune is {arg}, expected an array: tuning runs the kernels."
            )
    arrays = [arg if isinstance(arg, jax.Array) else jnp.asarray(arg) for arg in args]
    devices = {device for array in arrays or [jnp.zeros(())] for device in array.devices()}
    if len(devices) != 1:
        raise SignatureError(
            f"{name}: the arguments of tune lie on {len(devices)} devices ({', '.join(map(str, devices))}), expected "
            "one. Tune on the part that one device has."
        )
    return arrays, devices.pop()


def entrants(
    snapshot: Snapshot, platform: str, backends: Iterable[str] | None, name: str
) -> tuple[tuple[Candidate, ...], Candidate]:
    """The candidates to try on a platform, and the one to compare them with.

    Args:
        snapshot: The kernels that are registered now.
        platform: The platform of the arguments.
        backends: Backends, or ``"backend:configuration"``; None for everything.
        name: The operator, for errors.

    Raises:
        BackendError: The platform has no kernel, or none of the requested ones.
    """
    everything = candidates(snapshot, platform)
    if not everything:
        raise BackendError(
            f"{name}: no kernel for platform {platform!r}, where the arguments of tune are (registered: "
            f"{snapshot.describe()}). Register one with def_kernel, or put the arguments on another device."
        )
    reference = candidate(snapshot, platform, REFERENCE_BACKEND) or everything[0]
    wanted = None if backends is None else list(backends) if _is_listing(backends) else [backends]
    if wanted is None:
        return everything, reference
    known = {each.backend for each in everything} | {each.reference for each in everything}
    unknown = [backend for backend in wanted if backend not in known]
    if unknown or not wanted:
        raise BackendError(
            f"{name}: tune was asked for {', '.join(map(repr, unknown)) or 'no backend'}, expected some of those that "
            f"are registered for {platform!r} (registered: {snapshot.describe()})."
        )
    return tuple(each for each in everything if {each.backend, each.reference} & set(wanted)), reference


def _is_listing(names: Any) -> bool:
    return isinstance(names, Iterable) and not isinstance(names, str)
