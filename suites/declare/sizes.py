"""Declares the nominal sizes that an operator is checked and timed at."""

from __future__ import annotations

from dataclasses import dataclass

from suites.declare import fields


@dataclass(frozen=True)
class Sizes:
    """Nominal sizes, for correctness and for the two timing profiles of CPUs and of GPUs.

    2**26 float32 are 256 MiB per array, far beyond any cache.

    Attributes:
        check: Small sizes that every check runs at; odd ones find errors at the ends of blocks.
        large: A size at which kernels use all their threads and passes.
        quick: Sizes of the quick timing profile on a CPU.
        full: Sizes of the full timing profile on a CPU.
        cuda_quick: Sizes of the quick timing profile on a GPU.
        cuda_full: Sizes of the full timing profile on a GPU.
        quick_by_name: Whether the quick timing profile times the operator only where it is named, because another one
            resembles it.
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
