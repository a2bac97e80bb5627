"""Describes a client: a library of others, and the lines in which kernel-bridge takes the place of its own wrapper."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

ALL = {
    "brainevent": "suites.clients.brainevent:CLIENT",
    "brainevent-operators": "suites.clients.brainevent:OPERATORS",
    "warp": "suites.clients.warp:CLIENT",
    "nvalchemi": "suites.clients.nvalchemi:CLIENT",
    "jarp": "suites.clients.jarp:CLIENT",
    "mjx": "suites.clients.mjx:CLIENT",
}
"""Where the row of each client is: a module and a name."""

CALLS = 100
"""Calls of a kernel that are timed together."""


class Edit(NamedTuple):
    """Lines of a module of a client that change: every line that matches a pattern, which must be one at least.

    Attributes:
        module: The dotted name of the module.
        pattern: A regular expression for a whole line, without its indentation.
        line: The new line; it may refer to groups of the pattern.
    """

    module: str
    pattern: str
    line: str


@dataclass(frozen=True)
class Client:
    """A library whose tests run twice: with its own wrapper of kernels, and with the bridge's.

    Attributes:
        requirements: What pip installs, with pinned versions.
        edits: The lines to change.
        tests: Arguments of pytest that select its tests, such as ``("--pyargs", "warp.tests.interop.test_jax")``.
        python: The least minor version of Python 3 that it needs.
        sample: How many of the tests run unless all are asked for; they are drawn with a fixed seed. None runs all.
        different: The reason for each test that fails on purpose, by the end of its pytest id.
        calls: Returns two functions without parameters, its own and ours, that make :data:`CALLS` calls and wait for
            their results; see :func:`looped`.
    """

    requirements: tuple[str, ...]
    edits: tuple[Edit, ...]
    tests: tuple[str, ...]
    python: int = 11
    sample: int | None = None
    different: Mapping[str, str] = field(default_factory=dict)
    calls: Callable[[], tuple[Callable[[], Any], Callable[[], Any]]] | None = None


def client(name: str) -> Client:
    """The row of a client."""
    found: Client = pkgutil.resolve_name(ALL[name])
    return found


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
