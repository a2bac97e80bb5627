"""Defines the records of runs, writes them to files and reads them."""
