"""Records Python functions that launch Warp kernels, and repeats what they did natively. No single kernel needs it.

:mod:`~bridge.languages.warp.callable.warp_callable` has the public function, and
:mod:`~bridge.languages.warp.callable.recorded_function` describes such functions as a language. The function runs once
while Warp asks a recorder (:mod:`~bridge.languages.warp.callable.recorder`), which notes launches.
:mod:`~bridge.languages.warp.callable.device_memory` has those that zero, fill and copy.
"""
