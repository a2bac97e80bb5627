"""Takes wrappers of kernels apart: a user may declare a callable, such as ``bridge.numba_kernel(f, outs)``."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax

from suites.errors import OperatorError


def arguments_of(declared: Any, function: Callable[..., Any]) -> dict[str, Any] | None:
    """Returns the arguments that ``function`` of the bridge was called with to make a wrapper, by name.

    Args:
        declared: The object that an author declares as a kernel.
        function: Such as :func:`bridge.numba_kernel`.

    Returns:
        The arguments that were passed; None if the object is no wrapper, or another function made it.
    """
    maker, args, keywords = getattr(declared, "made_by", (None, (), {}))
    return dict(inspect.signature(function).bind(*args, **keywords).arguments) if maker is function else None


def outs_function(outs: Any) -> Callable[..., Any] | None:
    """Returns ``outs`` if it is a function of the inputs; None if it is fixed shapes and dtypes.

    Checks need other sizes than the fixed ones, and take the outputs of the operator instead.
    """
    is_function = callable(outs) and not hasattr(outs, "shape") and jax.tree_util.all_leaves([outs])
    return outs if is_function else None


@dataclass(frozen=True, eq=False)
class FixedLaunch:
    """Returns the same launch arguments for every call."""

    options: tuple[tuple[str, Any], ...]

    def __call__(self, inputs: Any, outs: Any) -> dict[str, Any]:
        """The launch arguments."""
        return dict(self.options)


@dataclass(frozen=True, eq=False)
class ThreadPerElement:
    """Returns launch arguments with a thread for each element of the first output."""

    options: tuple[tuple[str, Any], ...] = ()

    def __call__(self, inputs: Any, outs: Any) -> dict[str, Any]:
        """The launch arguments."""
        return {**dict(self.options), "launch_dims": math.prod(outs[0].shape)}


def launch_of(name: str, arguments: dict[str, Any], declare: str) -> FixedLaunch | ThreadPerElement:
    """Returns the launch of a wrapped CUDA kernel for every size.

    A launch beside a function ``outs`` serves all sizes. A launch for fixed outputs serves others only if it has one
    thread for each element.

    Args:
        name: The public function that made the wrapper, for errors.
        arguments: The arguments of the wrapper; ``outs`` among them.
        declare: The class that says how a kernel is launched, for errors.

    Raises:
        OperatorError: It is unknown how other sizes are launched.
    """
    options = tuple((key, value) for key, value in arguments.items() if key not in ("kernel", "source", "name", "outs"))
    if outs_function(arguments["outs"]) is not None:
        return FixedLaunch(options)
    values = dict(options)
    elements = [math.prod(leaf.shape) for leaf in jax.tree.leaves(arguments["outs"])]
    launch = values.pop("launch_dims", None)
    threads = math.prod(launch) if isinstance(launch, tuple | list) else launch
    if threads == elements[0] and not values.get("scalars"):
        return ThreadPerElement(tuple(values.items()))
    launch_text = ", ".join(
        f"{key}={value!r}" for key, value in options if key in ("grid", "block", "launch_dims", "scalars")
    )
    raise OperatorError(
        f"the kernel is wrapped by {name} for outputs of {elements[0]} elements with {launch_text}, which does not say "
        f"how the sizes of the checks are launched. Declare suites.{declare}, with a function of inputs and outputs "
        "that returns these arguments."
    )
