"""Names the functions of other libraries that compute the same as the built-in operators.

Each is the function that a user would call: the vendor's, if there is one. An operator declares them as its ``peers``.
"""

from __future__ import annotations

import numpy as np

from suites.peers.brainevent import (
    brainevent_csr_binary_matvec,
    brainevent_csr_matvec,
    brainevent_csr_rmatvec,
)
from suites.peers.cupy import (
    cupy_cumsum,
    cupy_matmul,
    cupy_softmax,
    cupy_sum,
    cusparse_csr_matmat,
    cusparse_csr_matvec,
    cusparse_csr_rmatvec,
)
from suites.peers.host import (
    numpy_into,
    numpy_matmul,
    numpy_reduction,
    scipy_csr_product,
    scipy_csr_transposed_product,
    scipy_sigmoid,
    scipy_softmax,
)

SUM = {"numpy": numpy_reduction(np.sum), "cupy": cupy_sum}
CUMSUM = {"numpy": numpy_into(np.cumsum), "cupy": cupy_cumsum}
MATVEC = MATMUL = {"numpy": numpy_matmul, "cupy": cupy_matmul}
SIGMOID = {"scipy": scipy_sigmoid}
SOFTMAX = {"scipy": scipy_softmax, "cupy": cupy_softmax}
CSR_MATVEC = {"scipy": scipy_csr_product, "cupy": cusparse_csr_matvec, "brainevent": brainevent_csr_matvec}
CSR_RMATVEC = {
    "scipy": scipy_csr_transposed_product,
    "cupy": cusparse_csr_rmatvec,
    "brainevent": brainevent_csr_rmatvec,
}
CSR_MATMAT = {"scipy": scipy_csr_product, "cupy": cusparse_csr_matmat}
CSR_BINARY_MATVEC = {"scipy": scipy_csr_product, "brainevent": brainevent_csr_binary_matvec}
