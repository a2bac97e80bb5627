"""Finds the fastest right backend for a call by measurement, and remembers it for later calls."""
