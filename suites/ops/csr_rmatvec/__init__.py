"""The operator csr_rmatvec."""

from suites.ops.csr_rmatvec.operator import OPERATOR as OPERATOR
