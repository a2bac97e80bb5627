"""The operator mean_std."""

from suites.ops.mean_std.operator import OPERATOR as OPERATOR
