"""Resolves what Triton's decorators leave open, once; :func:`triton_configurations` names the choices of autotune."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bridge.errors import KernelTypeError, SignatureError
from bridge.kernel.arguments import asked

OPTIONS = ("num_warps", "num_stages", "num_ctas")
"""What a configuration sets besides parameters of the kernel, as arguments of :func:`bridge.triton_kernel`."""


def triton_configurations(kernel: Any) -> dict[str, dict[str, Any]]:
    """The configurations of a kernel under ``triton.autotune``, by names that say what they set.

    They are what :meth:`bridge.XLACustomKernel.def_kernel` takes as ``configurations``, for a generator that passes
    ``config`` on to :func:`bridge.triton_kernel`. ``tune`` then times them and keeps the fastest, whose name is in
    records and in ``chosen.backend``.

    Args:
        kernel: A function under ``triton.autotune``, and other decorators.

    Raises:
        KernelTypeError: It is not under ``triton.autotune``.

    Example::

        op.def_triton_kernel(
            lambda outs, config: triton_kernel(add, outs[0], grid=grid, config=config, n=1000),
            configurations=triton_configurations(add),
        )
    """
    while kernel is not None and not hasattr(kernel, "configs"):
        kernel = getattr(kernel, "fn", None)
    if kernel is None:
        raise KernelTypeError(
            "triton_configurations got a kernel without configurations. Decorate it with triton.autotune."
        )
    return {_name(each): {"config": each} for each in kernel.configs}


def _name(config: Any) -> str:
    """What a configuration sets, without the characters that separate names of backends."""
    given = [pair for pair in config.all_kwargs().items() if pair[1] is not None and pair != ("num_ctas", 1)]
    text = " ".join(f"{name}={value}" for name, value in given)
    return text.replace(":", "=").replace(", ", "/").replace(",", "/")


def resolved(kernel: Any, values: Mapping[str, Any], config: Any) -> tuple[Any, dict[str, Any]]:
    """The ``JITFunction`` in its decorators, and the values with what these set. Values that are given win.

    Args:
        kernel: The decorated function.
        values: What the user passes by name.
        config: The configuration of ``triton.autotune`` to use; None for its first one.

    Raises:
        SignatureError: A configuration is given and there is no ``triton.autotune``; it runs Python before each launch;
            or a heuristic reads an array.
    """
    given, name = dict(values), getattr(kernel, "base_fn", kernel)
    name = getattr(name, "__name__", repr(name))
    while hasattr(kernel, "configs") or isinstance(getattr(kernel, "values", None), dict):
        if hasattr(kernel, "configs"):
            chosen = kernel.configs[0] if config is None else config
            if not hasattr(chosen, "all_kwargs"):
                raise SignatureError(f"{name}: config is {chosen!r}, expected one of its triton.Config objects.")
            if chosen.pre_hook or kernel.user_defined_pre_hook or kernel.user_defined_post_hook:
                raise SignatureError(
                    f"{name}: triton.autotune has a hook: Python that runs before or after each launch, but no launch "
                    "from JAX enters it. Do its work with jnp around the call; pass the kernel inside it (kernel.fn)."
                )
            given = {each: value for each, value in chosen.all_kwargs().items() if value is not None} | given
            config = None
        else:
            for each, heuristic in kernel.values.items():
                if each not in given:
                    known, says = dict.fromkeys(kernel.arg_names, _ARRAY) | given, f"{name}: the heuristic of {each!r}"
                    gets = "It gets the values that are passed by name, and of arrays only whether they are None."
                    given[each] = asked(heuristic, (known,), says, f"{gets} Pass {each}=...")
        kernel = kernel.fn
    if config is not None:
        raise SignatureError(
            f"{name}: config is {config!r}, but the kernel is not under triton.autotune. Pass values by name."
        )
    return kernel, given


_ARRAY = object()
"""Stands for an array that a heuristic may compare with None; its type is known when the call is traced."""
