"""Gathers the kernel languages: a file is named for the function that it exports."""
