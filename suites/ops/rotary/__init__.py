"""The operator rotary."""

from suites.ops.rotary.operator import OPERATOR as OPERATOR
