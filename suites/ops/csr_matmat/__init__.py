"""The operator csr_matmat."""

from suites.ops.csr_matmat.operator import OPERATOR as OPERATOR
