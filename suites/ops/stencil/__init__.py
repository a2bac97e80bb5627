"""The operator stencil."""

from suites.ops.stencil.operator import OPERATOR as OPERATOR
