"""The operator sum."""

from suites.ops.sum.operator import OPERATOR as OPERATOR
