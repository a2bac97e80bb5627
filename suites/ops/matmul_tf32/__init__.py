"""The operator matmul_tf32."""

from suites.ops.matmul_tf32.operator import OPERATOR as OPERATOR
