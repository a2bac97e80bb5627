"""Warp kernels as JAX operations: importing this package imports Warp, which ``import bridge`` alone does not.

The stages of a call: the kernel's annotations (:mod:`~bridge.warp.parameters`) -> the launch of these arrays and values
(:mod:`~bridge.warp.call`), forward or adjoint (:mod:`~bridge.warp.gradient`) -> what Warp itself would pass to the
machine code (:mod:`~bridge.warp.launch`) -> a native plan for the CPU or CUDA (:mod:`~bridge.warp.code`).
"""

from bridge.warp.kernel import jax_kernel
from bridge.warp.types import jaxinfo_to_warpinfo, jaxtype_to_warptype

__all__ = ["jax_kernel", "jaxinfo_to_warpinfo", "jaxtype_to_warptype"]
