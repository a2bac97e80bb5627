"""Starts the processes of a command, out of reach of the user's own pytest configuration, and ends them cleanly."""
