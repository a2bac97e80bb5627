"""The operator matmul."""

from suites.ops.matmul.operator import OPERATOR as OPERATOR
