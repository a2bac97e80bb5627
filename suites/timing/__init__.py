"""Measures how long a call takes, and what its device can do at most."""
