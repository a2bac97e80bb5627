"""Implements ``validate``: runs every check of a selection in pytest workers, and records each when it ends."""
