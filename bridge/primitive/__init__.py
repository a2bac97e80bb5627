"""Operators with several kernels: :class:`XLACustomKernel`.

The stages: registration (:mod:`~bridge.primitive.registry`) -> choice of a kernel for each platform
(:mod:`~bridge.primitive.dispatch`) -> a JAX primitive that carries the choice (:mod:`~bridge.primitive.operator`).
"""

from bridge.primitive.kernel import XLACustomKernel

__all__ = ["XLACustomKernel"]
