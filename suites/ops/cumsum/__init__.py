"""The operator cumsum."""

from suites.ops.cumsum.operator import OPERATOR as OPERATOR
