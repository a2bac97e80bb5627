"""Falls back to Warp's own ``jax_kernel`` where the bridge does not understand the launches of the installed Warp."""

from __future__ import annotations

import functools
import importlib
import inspect
import warnings
from collections.abc import Callable
from typing import Any

import warp as wp

from bridge.errors import AbiError
from bridge.languages.warp.supported import check_warp


@functools.cache
def is_understood() -> bool:
    """Whether the launches of the installed Warp can be made natively; warns once if they cannot."""
    try:
        check_warp()
    except AbiError as error:
        warnings.warn(
            f"{error} Until then jax_kernel is Warp's own, which enters Python at every call.",
            RuntimeWarning,
            stacklevel=4,  # jax_kernel and its decorator; functools.cache adds no frame
        )
        return False
    return True


def warps_own(**options: Any) -> Callable[..., Any]:
    """The kernel wrapped by Warp's own ``jax_kernel``, with the options that it knows.

    Raises:
        AbiError: Warp's function lacks an option that is set.
    """
    # In older versions it is under another name.
    own: Any = getattr(wp, "jax_kernel", None) or importlib.import_module("warp.jax_experimental").jax_kernel
    known = inspect.signature(own).parameters
    unknown = [name for name, value in options.items() if value and name not in known]
    if unknown:
        raise AbiError(f"jax_kernel of Warp {wp.__version__} has no options {', '.join(unknown)}. Leave them out.")
    options["vmap_method"] = options["vmap_method"] or "sequential"  # Warp's default passes the batch as one array
    wrapped: Callable[..., Any] = own(**{name: options[name] for name in known if options.get(name) is not None})
    return wrapped
