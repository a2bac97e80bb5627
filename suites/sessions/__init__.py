"""Runs the commands, out of reach of the user's own pytest configuration.

``validate_command`` starts pytest by :mod:`suites.sessions.isolation`, and ``checks_plugin`` is its part inside.
``bench_command`` and ``alternation`` conduct timing processes (:mod:`suites.sessions.panel`), each of which is a plain
:mod:`suites.sessions.worker`; ``messages`` are what they say to each other.
"""
