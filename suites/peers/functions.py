"""Names the functions of other libraries that compute the same as the built-in operators.

Each is the function that a user would call: the vendor's, if there is one. An operator declares them as its ``peers``.
"""

from __future__ import annotations

import numpy as np

from suites.peers import brainevent, cupy, host

SUM = {"numpy": host.numpy_reduction(np.sum), "cupy": cupy.cupy_sum}
CUMSUM = {"numpy": host.numpy_into(np.cumsum), "cupy": cupy.cupy_cumsum}
MATVEC = MATMUL = {"numpy": host.numpy_matmul, "cupy": cupy.cupy_matmul}
SIGMOID = {"scipy": host.scipy_sigmoid}
SOFTMAX = {"scipy": host.scipy_softmax, "cupy": cupy.cupy_softmax}
CSR_MATVEC = {
    "scipy": host.scipy_csr_product,
    "cupy": cupy.cusparse_csr_matvec,
    "brainevent": brainevent.brainevent_csr_matvec,
}
CSR_RMATVEC = {
    "scipy": host.scipy_csr_transposed_product,
    "cupy": cupy.cusparse_csr_rmatvec,
    "brainevent": brainevent.brainevent_csr_rmatvec,
}
CSR_MATMAT = {"scipy": host.scipy_csr_product, "cupy": cupy.cusparse_csr_matmat}
CSR_BINARY_MATVEC = {"scipy": host.scipy_csr_product, "brainevent": brainevent.brainevent_csr_binary_matvec}
