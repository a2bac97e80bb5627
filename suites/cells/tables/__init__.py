"""Holds the tables of cells that the checks run on, one idea to a module."""
