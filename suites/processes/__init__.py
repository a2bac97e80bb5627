"""Starts the processes of a command without the user's own pytest configuration, and ends them cleanly."""
