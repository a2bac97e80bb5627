"""Makes the instances of generic Warp kernels, and removes the ones that cannot be compiled."""

from __future__ import annotations

from collections.abc import Sequence

import warp as wp

from bridge.errors import SignatureError
from bridge.languages.warp.dtypes import LOCK, element_type
from bridge.languages.warp.launch_spec import Spec


def instantiated(kernel: wp.Kernel, types: Sequence[tuple[int | None, str, tuple[int, ...]]]) -> wp.Kernel:
    """The kernel itself, or the instance of a generic one.

    Args:
        kernel: The kernel.
        types: For each parameter its dimensions (None for a value), scalar dtype, and the shape of its elements.

    Raises:
        SignatureError: The generic kernel does not take these types.
    """
    if not kernel.is_generic:
        return kernel
    annotations = []
    for ndim, dtype, inner in types:
        element = element_type(dtype, inner)
        annotations.append(element if ndim is None else wp.array(dtype=element, ndim=ndim))
    with LOCK:
        try:
            return wp.overload(kernel, annotations)
        except TypeError as error:
            raise SignatureError(f"{error}. Convert the array, or annotate the kernel with Any.") from error


def withdraw(kernel: wp.Kernel) -> None:
    """Removes an instance that cannot be compiled from its generic kernel. The caller holds the lock.

    A launch by Warp itself compiles all instances of a kernel together, so Warp would refuse the others too.
    """
    generic = kernel.generic_parent
    if generic is not None and generic.overloads.pop(kernel.sig, None) is not None:
        generic.module.mark_modified()


def instance_for(kernel: wp.Kernel, spec: Spec) -> wp.Kernel:
    """The kernel itself, or the instance of a generic one that a launch needs.

    Raises:
        SignatureError: The kernel takes other arguments.
    """
    if len(kernel.adj.args) != len(spec.arguments):
        raise SignatureError(
            f"{kernel.key} takes {len(kernel.adj.args)} arguments, but the launch passes {len(spec.arguments)}."
        )
    types = [
        (None if argument.shape is None else len(argument.shape), argument.dtype, argument.inner)
        for argument in spec.arguments
    ]
    return instantiated(kernel, types)
