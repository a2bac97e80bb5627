"""The operator quantise."""

from suites.ops.quantise.operator import OPERATOR as OPERATOR
