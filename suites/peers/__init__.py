"""Calls functions of other libraries that compute the same as the built-in operators."""
