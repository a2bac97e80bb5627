"""Runs every check of a selection in workers of pytest, and records each as it ends."""
