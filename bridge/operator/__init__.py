"""Joins several kernels into one operator; JAX runs one of them on each platform.

In the order of a call: :mod:`~bridge.operator.custom_kernel` takes it, :mod:`~bridge.operator.registry` chooses its
kernel, and :mod:`~bridge.operator.operator_call` describes it as plain data. Then
:mod:`~bridge.operator.derivatives` and :mod:`~bridge.operator.primitive` transform and lower it, and
:mod:`~bridge.operator.author_functions` calls what the operator's author has registered.
:mod:`~bridge.operator.tuning` measures which choice is best, :mod:`~bridge.operator.tune` does so for all calls in a
function, and :mod:`~bridge.operator.choices` keeps the results. No kernel language is imported here:
:mod:`bridge.operator.xla_custom_kernel` does that.
"""
