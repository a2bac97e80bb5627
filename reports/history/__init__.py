"""Follows cells over the runs of one machine, and finds the runs at which their times changed."""
