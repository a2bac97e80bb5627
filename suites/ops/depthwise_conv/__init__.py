"""The operator depthwise_conv."""

from suites.ops.depthwise_conv.operator import OPERATOR as OPERATOR
