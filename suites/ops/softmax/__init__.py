"""The operator softmax."""

from suites.ops.softmax.operator import OPERATOR as OPERATOR
