"""Identifies a compiled kernel by its code, so that another kernel never runs in its place."""

from __future__ import annotations

import hashlib
import itertools
import os
import uuid
from collections.abc import Callable

from bridge.ffi.built import Built
from bridge.source.content import PROCESS_LOCAL


class Compiled:
    """A kernel that is compiled for the types of one call, and not loaded yet.

    Args:
        code: What the compiler made of the kernel, or everything that the compiler reads. Calls with equal code run the
            same machine code, in all processes. None if the code refers to something that only this process has.
        load: Loads the kernel.
        scratch: Bytes of each temporary buffer of a call. These are uint8 results after the kernel's own results.
        guarded: Indices of the inputs that the kernel gets copies of, because it is not shown to leave them unchanged.
            The plan has a further output for each, of the same type, which comes last and shares the copy's buffer.
        in_place: Pairs of input and output that may share memory where they have one shape and dtype: no element of the
            input is read after this element of the output is written, nor by another thread.
    """

    def __init__(
        self,
        code: str | bytes | None,
        load: Callable[[], Built],
        scratch: tuple[int, ...] = (),
        guarded: tuple[int, ...] = (),
        in_place: frozenset[tuple[int, int]] = frozenset(),
    ):
        self.load = load
        self.scratch = scratch
        self.guarded = guarded
        self.in_place = in_place
        if code is None:
            self.identity = f"{PROCESS_LOCAL}-{_process[0]}-{next(_serials)}"
        else:
            self.identity = hashlib.sha256(code.encode() if isinstance(code, str) else code).hexdigest()


_serials = itertools.count()
_process = [uuid.uuid4().hex]


def _become_another_process() -> None:
    _process[0] = uuid.uuid4().hex


os.register_at_fork(after_in_child=_become_another_process)
