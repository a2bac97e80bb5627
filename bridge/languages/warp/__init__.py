"""Compiles and calls Warp kernels on the CPU and on CUDA. Importing this package does not import Warp; its modules may.

The stages of a call:

1. :mod:`~bridge.languages.warp.parameters` reads the annotations of the kernel.
2. :mod:`~bridge.languages.warp.planned` plans the launch for the arrays and values of a call, and
   :mod:`~bridge.languages.warp.adjoint` the launch of its adjoint.
3. :mod:`~bridge.languages.warp.generated` generates the C++ of the kernel. :mod:`~bridge.languages.warp.inputs` decides
   from it which inputs the kernel gets as copies.
4. :mod:`~bridge.languages.warp.packing` packs the arguments as Warp itself does.
5. :mod:`~bridge.languages.warp.cpu_plan` and :mod:`~bridge.languages.warp.cuda_plan` make the native plan.

What Warp does not promise to keep is in :mod:`bridge.compat.warp`. A function that launches several kernels is recorded
and repeated by :mod:`bridge.languages.warp.callable`; nothing here needs it.
"""

from bridge.languages.warp.warp_language import LANGUAGE

__all__ = ["LANGUAGE"]
