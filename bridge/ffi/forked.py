"""Refuses calls in a process that was forked after XLA had started: XLA's threads exist only in the parent.

There a call could wait for a thread that does not exist. So a new call raises an error when it is traced. For programs
that are compiled already, native code finds no kernels any more and asks Python, which answers with the same error.
JAX's programs stay as they are: some of XLA's own operations still run in a forked process, others wait for ever.
"""

from __future__ import annotations

import os
from collections.abc import Sized
from typing import Protocol

from bridge.errors import ForkedProcessError


class Forgetful(Sized, Protocol):
    """A table of kernels, whose length tells whether there are any."""

    def forget(self) -> None:
        """Makes native code find no kernels any more. It takes no lock: a thread of the parent may hold it."""


class _Fork:
    """Whether this process was forked after use.

    Attributes:
        parent: The process that was forked; None if this one may call kernels.
        tables: All tables of kernels.
    """

    def __init__(self) -> None:
        self.parent: int | None = None
        self.tables: list[Forgetful] = []

    def become_child(self) -> None:
        """Is called in a new child."""
        from bridge.compat.jax import xla_has_started  # imports more of JAX

        if self.parent is not None or any(len(table) for table in self.tables) or xla_has_started():
            self.parent = os.getppid()
            for table in self.tables:
                table.forget()


_fork = _Fork()


def watch(table: Forgetful) -> None:
    """Empties a table of kernels in forked processes."""
    _fork.tables.append(table)


def require_own_process(name: str) -> None:
    """Raises an error in a process that was forked after XLA had started.

    Raises:
        ForkedProcessError: XLA's threads do not exist in this process.
    """
    if _fork.parent is not None:
        raise ForkedProcessError(
            f"{name}: process {os.getpid()} was forked from process {_fork.parent}, where XLA runs. XLA's threads do "
            "not exist in a forked process, so a call could wait for ever. Start workers with "
            "multiprocessing.get_context('spawn') or 'forkserver', or fork before JAX is first used."
        )


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_fork.become_child)
