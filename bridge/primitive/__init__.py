"""Operators with several kernels: :class:`XLACustomKernel`.

The stages: registration of kernels and rules (:mod:`~bridge.primitive.registry`, :mod:`~bridge.primitive.rules`) ->
choice of a kernel for each platform (:mod:`~bridge.primitive.dispatch`, :mod:`~bridge.primitive.preference`) -> a JAX
primitive that carries the choice (:mod:`~bridge.primitive.operator`) -> its derivatives
(:mod:`~bridge.primitive.derivatives`) and its parts on several devices (:mod:`~bridge.primitive.partition`). Beside
them: a choice by measurement (:mod:`~bridge.primitive.tuning`, remembered by :mod:`~bridge.primitive.winners`), what
would run and why (:mod:`~bridge.primitive.explanation`), and a mode that checks kernels as they run
(:mod:`~bridge.primitive.debug`, :mod:`~bridge.primitive.checks`).
"""

from bridge.primitive.debug import debug_mode
from bridge.primitive.kernel import XLACustomKernel
from bridge.primitive.preference import use_backend

__all__ = ["XLACustomKernel", "debug_mode", "use_backend"]
