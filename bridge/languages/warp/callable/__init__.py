"""Records Python functions that launch Warp kernels, and repeats what they did natively. No single kernel needs it.

:mod:`~bridge.languages.warp.callable.warp_callable` has the public function, and
:mod:`~bridge.languages.warp.callable.callable_language` describes such functions as a language. The function runs once
(:mod:`~bridge.languages.warp.callable.recording`) while Warp asks a recorder
(:mod:`~bridge.languages.warp.callable.recorder`). :mod:`~bridge.languages.warp.callable.plans` repeats what it did: on
the CPU by calls of the same functions, on CUDA by launches, of which
:mod:`~bridge.languages.warp.callable.device_memory` has those for what is no kernel.
"""
