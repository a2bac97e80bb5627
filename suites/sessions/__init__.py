"""Runs the commands: each is a pytest session of this package that nothing of the user's configuration reaches.

:mod:`suites.sessions.isolation` starts pytest. ``bench`` and ``validate`` are the commands; ``timing_plugin`` and
``checks_plugin`` are their halves inside pytest. ``events`` carries the progress of a timing session to ``bench``.
"""
