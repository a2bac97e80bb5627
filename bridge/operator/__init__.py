"""Joins several kernels into one operator; JAX runs one of them on each platform.

The rooms, in the order of a call: :mod:`bridge.operator.call` describes it, :mod:`bridge.operator.choice` chooses its
kernel, and :mod:`bridge.operator.rules` lowers and transforms it. :mod:`bridge.operator.tuning` measures which choice
is best. No kernel language is named here: :mod:`bridge.xla_custom_kernel` does that.
"""
