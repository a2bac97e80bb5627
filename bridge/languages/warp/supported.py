"""Decides whether the bridge understands the launches of the installed Warp."""

from __future__ import annotations

import ctypes
import inspect
from typing import Any

import warp as wp

from bridge.errors import AbiError
from bridge.ffi.native.abi import WORD_BYTES

OLDEST = (1, 13)
"""The first version whose C entries take the address of the bounds. The gradients of in/out arguments need it too: from
this version on, a store clears the adjoint of the element that it overwrites."""


def check_warp() -> None:
    """Checks that the installed Warp records launches in the form that the bridge reads.

    Raises:
        AbiError: It records them in another form.
    """
    if version() < OLDEST:
        raise unknown_launches("it passes the bounds of a launch on the CPU by value")
    wanted = {"dim", "inputs", "adj_inputs", "device", "adjoint", "record_tape", "record_cmd", "block_dim"}
    missing = wanted - set(inspect.signature(wp.launch).parameters)
    if missing:
        raise unknown_launches(f"warp.launch has no parameters {', '.join(sorted(missing))}")
    generates = {"Module": ("mark_modified", "resolve_options"), "ModuleBuilder": ("codegen",)}
    for name, methods in generates.items():
        if not all(hasattr(getattr(internals(), name, None), method) for method in methods):
            raise unknown_launches(f"its {name} lacks one of the methods {', '.join(methods)}")
    array = wp.array(dtype=wp.float32, ndim=1).__ctype__()
    fields = {name: kind for name, kind, *_ in getattr(type(array), "_fields_", ())}
    for name in ("data", "grad"):
        if name not in fields or ctypes.sizeof(fields[name]) != WORD_BYTES:
            raise unknown_launches(f"its array descriptor has no 8-byte field {name!r}")
        if getattr(type(array), name).offset % WORD_BYTES:
            raise unknown_launches(f"the field {name!r} of its array descriptor does not lie on a word")


def internals() -> Any:
    """The part of Warp that generates code. Warp does not export it, so :func:`check_warp` looks at it.

    Raises:
        AbiError: There is no such part.
    """
    try:
        return wp._src.context
    except AttributeError as error:
        raise unknown_launches("it generates code in another place") from error


def version() -> tuple[int, ...]:
    """Major and minor version of the installed Warp."""
    return tuple(int(part) for part in wp.__version__.split(".")[:2])


def unknown_launches(what: str) -> AbiError:
    """The error for a version of Warp that is not understood."""
    return AbiError(
        f"bridge does not understand the launches of Warp {wp.__version__}: {what}. Install a version of warp-lang "
        "that this release of kernel-bridge supports, or use Warp's own warp.jax_kernel."
    )
