"""Measures the cost of a call: the same small add, through each way to call a kernel from JAX.

``kernel-bridge dispatch`` runs it. A :mod:`platform <suites.dispatch.platforms>` lists its paths
(:mod:`suites.dispatch.paths_cpu`, :mod:`suites.dispatch.paths_cuda`). Each path is checked in every
:mod:`mode <suites.dispatch.modes>`. Then all of them are :mod:`measured <suites.dispatch.measure>` in turn. The command
records the results like any other run, and :mod:`reports.pages.call_costs` shows them.
"""
