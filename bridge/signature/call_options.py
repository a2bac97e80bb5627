"""Checks the options of a kernel call that all kernel languages share, such as ``vmap_method`` and ``in_place``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bridge.errors import SignatureError

VMAP_METHODS = (None, "expand_dims", "broadcast_all", "sequential", "sequential_unrolled", "legacy_vectorized")


def check_vmap_method(vmap_method: str | None, name: str) -> None:
    """Raises SignatureError unless ``vmap_method`` is one that ``jax.ffi.ffi_call`` knows."""
    if vmap_method not in VMAP_METHODS:
        raise SignatureError(f"{name}: vmap_method is {vmap_method!r}, expected one of {list(VMAP_METHODS)}.")


def check_aliases(aliases: Mapping[int, int] | None, name: str) -> tuple[tuple[int, int], ...]:
    """Normalises ``input_output_aliases`` to sorted pairs of input and output index.

    Raises:
        SignatureError: ``aliases`` is not a mapping of ints, or maps two inputs to one output.
    """
    if aliases is None:
        return ()
    if not isinstance(aliases, Mapping) or not all(
        isinstance(index, int | np.integer) and index >= 0 for pair in aliases.items() for index in pair
    ):
        raise SignatureError(
            f"{name}: input_output_aliases is {aliases!r}, expected a dict from input index to output index, as "
            "{0: 0}."
        )
    pairs = tuple(sorted((int(i), int(o)) for i, o in aliases.items()))
    if len({o for _, o in pairs}) != len(pairs):
        raise SignatureError(f"{name}: input_output_aliases {dict(pairs)} maps two inputs to one output.")
    return pairs


def check_aliased_types(
    aliases: tuple[tuple[int, int], ...], inputs: Sequence[Any], outputs: Sequence[Any], name: str
) -> None:
    """Raises SignatureError unless each aliased pair exists and has one shape and dtype."""
    for i, o in aliases:
        if i >= len(inputs) or o >= len(outputs):
            raise SignatureError(
                f"{name}: input_output_aliases maps input {i} to output {o}, but the call has {len(inputs)} inputs and "
                f"{len(outputs)} outputs (indices start at 0)."
            )
        given, declared = inputs[i], outputs[o]
        if given.shape != declared.shape or given.dtype != declared.dtype:
            raise SignatureError(
                f"{name}: input_output_aliases maps input {i} ({given.dtype}{list(given.shape)}) to output {o} "
                f"({declared.dtype}{list(declared.shape)}); an alias needs one shape and dtype."
            )


def check_in_place(in_place: bool | None, name: str) -> None:
    """Raises SignatureError unless ``in_place`` is True, False or None."""
    if in_place is not None and not isinstance(in_place, bool):
        raise SignatureError(
            f"{name}: in_place is {in_place!r}, expected True (it may work in the memory of an input), False (it must "
            "not), or None (find out from its source). To name the inputs, pass input_output_aliases."
        )


def check_in_place_types(in_place: bool | None, inputs: Sequence[Any], outputs: Sequence[Any], name: str) -> None:
    """Raises SignatureError if ``in_place`` is True and no output has the shape and dtype of an input."""
    if not in_place:
        return
    given, declared = ([(each.shape, each.dtype) for each in arrays] for arrays in (inputs, outputs))
    if not set(given) & set(declared):
        listed = ", ".join(f"{dtype}{list(shape)}" for shape, dtype in given)
        wanted = ", ".join(f"{dtype}{list(shape)}" for shape, dtype in declared)
        raise SignatureError(
            f"{name}: in_place is True, but no output ({wanted}) has the shape and dtype of an input ({listed}), so it "
            "has no memory to work in. Leave in_place out."
        )
