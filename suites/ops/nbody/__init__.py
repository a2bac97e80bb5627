"""The operator nbody."""

from suites.ops.nbody.operator import OPERATOR as OPERATOR
