"""The operator top_k."""

from suites.ops.top_k.operator import OPERATOR as OPERATOR
