"""Compiles Numba-CUDA kernels on a machine without a GPU, for tests of the compiled code. Imports numba-cuda."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from unittest import mock

from numba.cuda import codegen, dispatcher

CAPABILITY = (9, 0)


@contextlib.contextmanager
def compiling() -> Iterator[None]:
    """Lets Numba-CUDA compile for a GPU of this capability in the block; nothing can be loaded."""
    device = SimpleNamespace(compute_capability=CAPABILITY)
    with (
        mock.patch.object(dispatcher, "get_current_device", return_value=device),
        mock.patch.object(dispatcher._Kernel, "bind"),
        mock.patch.object(codegen.CUDACodeLibrary, "_ensure_cc", lambda self, cc: cc or CAPABILITY),
    ):
        yield
