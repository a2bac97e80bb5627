"""The operator lif_step."""

from suites.ops.lif_step.operator import OPERATOR as OPERATOR
