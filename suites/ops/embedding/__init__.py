"""The operator embedding."""

from suites.ops.embedding.operator import OPERATOR as OPERATOR
