"""Holds all that the bridge uses of other libraries without their promise to keep it, one file for each library."""
