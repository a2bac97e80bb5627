"""Runs the commands as pytest sessions of this package, out of reach of the user's own pytest configuration.

:mod:`suites.sessions.isolation` starts pytest. ``bench_command`` and ``validate_command`` are the
commands; ``timing_plugin`` and ``checks_plugin`` are their parts inside pytest. ``events`` carries the progress of a
timing session to ``bench_command``.
"""
