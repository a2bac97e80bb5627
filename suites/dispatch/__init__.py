"""What one call costs: the same small add through every way of calling a kernel from JAX, interleaved in one run.

``python -m suites.dispatch`` reads downward: a :mod:`platform <suites.dispatch.platforms>` names its paths
(:mod:`suites.dispatch.paths_cpu`, :mod:`suites.dispatch.paths_cuda`), each is checked in every
:mod:`mode <suites.dispatch.modes>`, then :mod:`measured <suites.dispatch.measure>`, and the
:mod:`run <suites.dispatch.record>` becomes a :mod:`report <suites.dispatch.report>`.
"""
