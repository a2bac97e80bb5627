"""Unit tests of :mod:`suites` itself: a check that cannot fail proves nothing."""
