"""The operator add."""

from suites.ops.add.operator import OPERATOR as OPERATOR
