"""Writes recorded runs in the formats of other tools: pytest-benchmark, asv and JUnit."""
