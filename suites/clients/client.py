"""Describes a client: a library of others, and the lines in which kernel-bridge takes the place of its own wrapper."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

CALLS = 100
"""Calls of a kernel that are timed together."""


@dataclass(frozen=True)
class Client:
    """A library whose tests run twice: with its own wrapper of kernels, and with the bridge's.

    Attributes:
        requirements: What pip installs, with pinned versions.
        edits: By module, the lines that change: a pattern for a whole line without its indentation, which must match
            one line at least, and the new line, which may refer to groups of the pattern from ``\\2`` on.
        tests: Arguments of pytest that select its tests, such as ``("--pyargs", "warp.tests.interop.test_jax")``.
        python: The least minor version of Python 3 that it needs.
        sample: How many of the tests run unless all are asked for; they are drawn with a fixed seed. None runs all.
        different: The reason for each test that fails on purpose, by the end of its pytest id; of Warp's tests without
            the device that follows.
        calls: Returns two functions without parameters, its own and ours, that make :data:`CALLS` calls and wait for
            their results; see :func:`looped`.
    """

    requirements: tuple[str, ...]
    edits: Mapping[str, Mapping[str, str]]
    tests: tuple[str, ...]
    python: int = 11
    sample: int | None = None
    different: Mapping[str, str] = field(default_factory=dict)
    calls: Callable[[], tuple[Callable[[], Any], Callable[[], Any]]] | None = None

    def differs(self, test: str) -> bool:
        """Whether a test fails on purpose."""
        return re.sub("_(cpu|cuda_0)$", "", test).endswith(tuple(self.different))


def looped(call: Callable[..., Any], *arrays: Any) -> Callable[[], Any]:
    """Compiles a loop of calls of a JAX function now, so that the wrapper that is in place now stays in it."""
    import jax

    def again(_: Any, carry: Any) -> Any:
        arrays, _ = jax.lax.optimization_barrier(carry)
        return arrays, call(*arrays)

    def many(*arrays: Any) -> Any:
        return jax.lax.fori_loop(0, CALLS - 1, again, (arrays, call(*arrays)))[1]

    run = jax.jit(many).lower(*arrays).compile()
    return lambda: jax.block_until_ready(run(*arrays))
