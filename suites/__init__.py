"""Operator in, evidence out: is each backend's kernel right, under which transformations, and how fast is it?

The stages, each a module: :mod:`suites.backends` (who can implement an operator) -> :mod:`suites.operator` (what one
declares) -> :mod:`suites.ops` (the declarations) -> :mod:`suites.params` (the matrix of cells) -> :mod:`suites.check`
with :mod:`suites.accuracy` (right or wrong) -> :mod:`suites.timing` with :mod:`suites.bandwidth` (how fast) ->
:mod:`suites.session` (records, progress, table). The tests are named after what they establish.
"""
