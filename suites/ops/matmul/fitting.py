"""Chooses tiles of a product by its size."""

from collections.abc import Mapping, Sequence
from typing import Any

TILES = 128
"""Nearly one for each of the 132 multiprocessors of an H200."""


def fitting(choices: Sequence[Mapping[str, Any]], rows: int, columns: int) -> Mapping[str, Any]:
    """The first choice that makes :data:`TILES` of the product or more; if none does, the last."""
    for choice in choices:
        if -(-rows // choice["ROWS"]) * -(-columns // choice["COLUMNS"]) >= TILES:
            return choice
    return choices[-1]
