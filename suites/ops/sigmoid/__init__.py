"""The operator sigmoid."""

from suites.ops.sigmoid.operator import OPERATOR as OPERATOR
