"""The operator csr_matvec."""

from suites.ops.csr_matvec.operator import OPERATOR as OPERATOR
