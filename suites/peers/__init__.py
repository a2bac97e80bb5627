"""Calls functions of other libraries that compute what the built-in operators compute."""
