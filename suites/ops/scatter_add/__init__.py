"""The operator scatter_add."""

from suites.ops.scatter_add.operator import OPERATOR as OPERATOR
