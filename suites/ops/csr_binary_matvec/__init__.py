"""The operator csr_binary_matvec."""

from suites.ops.csr_binary_matvec.operator import OPERATOR as OPERATOR
