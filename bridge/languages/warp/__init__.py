"""Warp kernels as JAX operations: importing this package imports Warp, which ``import bridge`` alone does not.

The stages of a call: the kernel's annotations (:mod:`~bridge.languages.warp.parameters`) -> the launch of these arrays and values
(:mod:`~bridge.languages.warp.planned`), forward or adjoint (:mod:`~bridge.languages.warp.adjoint`) -> what Warp itself would pass to the
machine code (:mod:`~bridge.languages.warp.packing`) -> a native plan for the CPU or CUDA (:mod:`~bridge.languages.warp.compiled`).
"""

from bridge.languages.warp.dtypes import jaxinfo_to_warpinfo, jaxtype_to_warptype
from bridge.languages.warp.wrapping import jax_kernel

__all__ = ["jax_kernel", "jaxinfo_to_warpinfo", "jaxtype_to_warptype"]
