"""Operator in, evidence out: is each backend's kernel right, under which transformations, and how fast is it?

The stages, each a module: :mod:`suites.backends` (who can implement an operator) -> :mod:`suites.operator` (what one
declares) -> :mod:`suites.ops` (the declarations), or those of a user's file (:mod:`suites.catalogue`) ->
:mod:`suites.params` (the matrix of cells). From there two ways lead on:

- right or wrong: :mod:`suites.checks` (which tests make which check; :mod:`suites.strategies` draws their inputs) ->
  :mod:`suites.check` with :mod:`suites.accuracy` (the verdict) -> :mod:`suites.evidence` (what one test found) ->
  :mod:`suites.validation` (records, grid). :mod:`suites.mutants` shows what the checks see, :mod:`suites.special`
  where backends differ without being wrong.
- how fast: :mod:`suites.timing` with :mod:`suites.bandwidth` -> :mod:`suites.session` (records, progress, table).

:mod:`suites.plugin` gives pytest the parameters; :mod:`suites.run` runs pytest for ``python -m suites``. The tests are
named after what they establish.
"""
