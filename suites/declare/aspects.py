"""Declares parts of an operator: the sizes of its checks and timings, and its derivative."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from suites.declare import fields
from suites.errors import OperatorError


@dataclass(frozen=True)
class Sizes:
    """Nominal sizes, for correctness and for the two timing profiles of CPUs and of GPUs.

    2**26 float32 are 256 MiB per array, far beyond any cache.

    Attributes:
        check: Small sizes for every check; odd ones find errors at the ends of blocks.
        large: A size at which kernels use all their threads and passes.
        quick: Sizes of the quick timing profile on a CPU.
        full: Sizes of the full timing profile on a CPU.
        cuda_quick: Sizes of the quick timing profile on a GPU.
        cuda_full: Sizes of the full timing profile on a GPU.
        quick_by_name: Whether the quick timing profile times the operator only if the user names it, because another
            operator resembles it.
    """

    check: tuple[int, ...] = (1, 257, 2100)
    large: int = 100_003
    quick: tuple[int, ...] = (4096, 2**20)
    full: tuple[int, ...] = (1024, 4096, 2**16, 2**20, 2**22, 2**24)
    cuda_quick: tuple[int, ...] = (4096, 2**20, 2**26)
    cuda_full: tuple[int, ...] = (4096, 2**16, 2**20, 2**22, 2**24, 2**26)
    quick_by_name: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "large", fields.size("Sizes: large", self.large))
        for name in ("check", "quick", "full", "cuda_quick", "cuda_full"):
            object.__setattr__(self, name, fields.sizes(f"Sizes: {name}", getattr(self, name)))

    def of(self, platform: str, profile: str) -> tuple[int, ...]:
        """The sizes of a timing profile (``quick`` or ``full``) on a platform."""
        sizes: tuple[int, ...] = getattr(self, profile if platform == "cpu" else f"{platform}_{profile}")
        return sizes


@dataclass(frozen=True)
class Gradient:
    """Declares that an operator has the derivative of its reference, at its samples.

    Its error bounds are derived from the derivative of the reference, see :func:`suites.derived_truth`.

    Attributes:
        inputs: The indices of the inputs that have a derivative. By default all inputs of real floats in which the
            kernels can be differentiated. A function around Warp kernels has a derivative only with these indices.
        dtypes: The dtypes in which they have one; None for all of the operator's dtypes that are floats.
        sizes: Nominal sizes for checks; None for the operator's sizes.
        is_assumed: Whether it is the default of a field that the author left out.
    """

    inputs: Sequence[int] | None = None
    dtypes: Sequence[Any] | None = None
    sizes: tuple[int, ...] | None = None
    is_assumed: bool = False

    def __post_init__(self) -> None:
        if self.inputs is not None:
            several = (self.inputs,) if isinstance(self.inputs, int) else tuple(self.inputs)
            if not several or not all(isinstance(index, int) and index >= 0 for index in several):
                raise OperatorError(f"Gradient: inputs is {self.inputs!r}, expected indices of inputs, such as (0, 2).")
            object.__setattr__(self, "inputs", tuple(sorted(set(several))))
        if self.dtypes is not None:
            object.__setattr__(self, "dtypes", fields.dtypes("Gradient: dtypes", self.dtypes))
        if self.sizes is not None:
            object.__setattr__(self, "sizes", fields.sizes("Gradient: sizes", self.sizes))
