"""The operator histogram."""

from suites.ops.histogram.operator import OPERATOR as OPERATOR
