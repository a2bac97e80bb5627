"""Measures how long a call takes, and the limits of its device."""
