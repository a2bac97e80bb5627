"""Keeps recorded runs on a branch of a git repository, from night to night.

:mod:`suites.keeping.kept_runs` says where a run lies on the branch, and which runs fall out when it grows too large.
:mod:`suites.keeping.history_branch` commits and pushes. :mod:`suites.keeping.keep_command` is the command ``keep``.
"""
