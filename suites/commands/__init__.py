"""Reads the command line, and holds the small commands; each of the others has a folder of its own."""
