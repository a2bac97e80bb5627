"""The operator matvec."""

from suites.ops.matvec.operator import OPERATOR as OPERATOR
