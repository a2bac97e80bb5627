"""The operator attention."""

from suites.ops.attention.operator import OPERATOR as OPERATOR
