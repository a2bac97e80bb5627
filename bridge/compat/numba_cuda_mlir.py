"""Holds what the bridge uses of numba-cuda-mlir's insides. Imports numba-cuda-mlir.

- `Dispatcher._can_compile`: whether a kernel is for the signatures that its decorator declares only. Unnecessary if the
  dispatcher told.
- `tools._cached_cc`: is replaced while a kernel compiles. numba-cuda-mlir 0.6 links for the GPU that it finds, also
  where the option `chip` names an older one, and fails where there is none. Unnecessary if `chip` was enough, as it is
  for `numba.cuda.compile`.
- `metadata`: the machine code of a kernel, its name, its MLIR code and what it is linked with. Unnecessary if
  `cuda.compile` returned them.
- `memref`: the arguments of a kernel in its MLIR code are descriptors, which become these launch parameters.
  Unnecessary if numba-cuda-mlir documented them.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from numba_cuda_mlir import tools

from bridge.compat.library import Library, reasons

LIBRARY = Library("numba-cuda-mlir", "0.6", "0.6", reasons(__doc__))


def takes_new_types(dispatcher: Any) -> bool:
    """Whether a kernel is compiled for any types, and not only for the signatures that its decorator declares."""
    return bool(LIBRARY.get(dispatcher, "_can_compile"))


_LOCK = threading.Lock()


@contextlib.contextmanager
def compiling_for(capability: int) -> Iterator[None]:
    """Lets the compiler take the GPU of this process for one of this compute capability."""
    with _LOCK:
        before, tools._cached_cc = LIBRARY.get(tools, "_cached_cc"), divmod(capability, 10)
        try:
            yield
        finally:
            tools._cached_cc = before


class MlirKernel(NamedTuple):
    """A compiled kernel.

    Attributes:
        cubin: Its machine code.
        name: Its name there.
        mlir: The code that it was made from.
        is_alone: Whether it is linked with no other code.
        is_cooperative: Whether it synchronises its whole grid.
    """

    cubin: bytes
    name: str
    mlir: str
    is_alone: bool
    is_cooperative: bool


def code(compiled: Any, ranks: Sequence[int]) -> MlirKernel:
    """The code of a compiled kernel that takes arrays of these ranks, then parameters with defaults.

    Raises:
        AbiError: It does not take them as descriptors of memory.
    """
    about = LIBRARY.get(compiled, "metadata")
    try:
        mlir, name, linked = str(about["mlir_module_str"]), about["func_name"], about["linked_external_link_items"]
        made = MlirKernel(bytes(about["cubin"]), name, mlir, not linked, bool(about.get("use_cooperative")))
    except KeyError as error:
        raise LIBRARY.changed(f"the metadata of a kernel has no {error}") from error
    head = re.search(r"gpu\.func @.*?(\(%arg0.*) kernel ", mlir)
    memrefs = re.findall(r"%arg\d+: memref<((?:\?x)*)[^,]+, strided<\[[^]]*\], offset: \?>>", head[1] if head else "")
    if [each.count("?") for each in memrefs] != [*ranks]:
        raise LIBRARY.changed(f"a kernel of arrays of the ranks {ranks} takes {head and head[1]}")
    return made
