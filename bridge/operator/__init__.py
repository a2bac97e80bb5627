"""Joins several kernels into one operator; JAX runs one of them on each platform.

In the order of a call: :mod:`~bridge.operator.custom_kernel` takes it, :mod:`~bridge.operator.choice` chooses its
kernel from the :mod:`~bridge.operator.registry`, and :mod:`~bridge.operator.operator_call` describes it as plain data.
Then :mod:`~bridge.operator.derivatives`, :mod:`~bridge.operator.primitive` and
:mod:`~bridge.operator.selected_kernel` transform and lower it. :mod:`~bridge.operator.tuning` measures which choice is
best. No kernel language is imported here: :mod:`bridge.xla_custom_kernel` does that.
"""
