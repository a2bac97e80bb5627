"""The operator split_sign."""

from suites.ops.split_sign.operator import OPERATOR as OPERATOR
