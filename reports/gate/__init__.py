"""Decides whether a comparison lets a change pass: 0 fine, 1 slower or wrong, 3 could not decide.

`policy` reads the policy of a project from its `pyproject.toml`, `ruling` applies it to comparisons, and `gate_page`
shows the result.
"""
