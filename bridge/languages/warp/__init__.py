"""Compiles and calls Warp kernels on the CPU and on CUDA. Importing this package does not import Warp; its modules do.

The stages of a call, each of which imports only earlier ones:

1. :mod:`~bridge.languages.warp.parameters` reads the annotations of the kernel,
   :mod:`~bridge.languages.warp.settings` how Warp would compile it now. :mod:`~bridge.languages.warp.inputs` tells from
   its C++ which inputs it may write to. :mod:`~bridge.languages.warp.operations` has launches as data.
2. :mod:`~bridge.languages.warp.wrapper` makes the function that users call.
   :mod:`~bridge.languages.warp.generated` generates the C++, and packs the arguments as Warp itself does.
3. :mod:`~bridge.languages.warp.planned` plans the launch for the arrays and values of a call, and that of its adjoint.
   :mod:`~bridge.languages.warp.cpu_plan` and :mod:`~bridge.languages.warp.cuda_plan` make the native plan.
4. :mod:`~bridge.languages.warp.jax_kernel` has the public function, and describes Warp as a native language.

What Warp does not promise to keep is in :mod:`bridge.compat.warp`. A function that launches several kernels is recorded
and repeated by :mod:`bridge.languages.warp.callable`; nothing here needs it.
"""
