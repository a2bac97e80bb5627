"""The operator linear_recurrence."""

from suites.ops.linear_recurrence.operator import OPERATOR as OPERATOR
