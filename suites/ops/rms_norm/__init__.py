"""The operator rms_norm."""

from suites.ops.rms_norm.operator import OPERATOR as OPERATOR
