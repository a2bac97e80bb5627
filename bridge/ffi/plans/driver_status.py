"""Names a result of functions of CUDA's driver, for native code and for Python."""

OUT_OF_MEMORY = 2
"""``CUDA_ERROR_OUT_OF_MEMORY``."""
