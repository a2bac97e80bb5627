"""Lays out tables and writes them for a terminal, as Markdown, or to files."""
