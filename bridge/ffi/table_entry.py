"""Holds one compiled kernel in the table of an FFI target, under a key that every process computes alike."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import msgspec

from bridge.errors import PlatformError

if TYPE_CHECKING:
    from bridge.ffi.built import Built


def key_of(description: str) -> int:
    """The non-zero signed 64-bit key of a description: the start of its SHA-256."""
    digest = hashlib.sha256(description.encode()).digest()
    return int.from_bytes(digest[:8], "little", signed=True) or 1


class Entry(msgspec.Struct, frozen=True, eq=False, gc=False):
    """One compiled kernel in a target's table; equal to every entry of the same description.

    Entries live as long as the process. A program may call a kernel long after the last reference to its wrapper is
    gone: it may be running now, or come from ``jax.export``, and nobody can know. So Python's garbage collector need
    not look at them (``gc=False``): else each of its collections would take longer with every kernel.

    Attributes:
        description: The kernel, its options and its argument types, as text.
        key: ``key_of(description)``.
        address: Address of the plan that the target executes.
        name: The kernel, for error messages.
        alive: Owns the machine code that the plan refers to.
        carried: What an exported program can carry; None if the machine code cannot leave this process.
    """

    description: str
    key: int
    address: int
    name: str
    alive: Any
    carried: Built | None

    @classmethod
    def of(cls, description: str, built: Built) -> Entry:
        """The entry of a kernel that is compiled and loaded."""
        carried = None if built.images is None else built
        return cls(description, key_of(description), built.plan.keep(), built.plan.name, built.alive, carried)

    def embedded(self) -> str:
        """The plan with its machine code as text, which an exported program can carry.

        Raises:
            PlatformError: The machine code cannot leave this process.
        """
        from bridge.ffi.cuda import embedded
        from bridge.ffi.plans.device import DevicePlan

        plan, images = (self.carried.plan, self.carried.images) if self.carried else (None, None)
        if images is None or not isinstance(plan, DevicePlan):
            raise PlatformError(
                f"the kernel {self.name!r} cannot be carried along by an exported program. Export it with jax.export; "
                "the process that runs it then has to define the kernel."
            )
        return embedded.write(plan, images())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Entry) and self.description == other.description

    def __hash__(self) -> int:
        return self.key

    def __repr__(self) -> str:
        return f"Entry({self.description!r})"
