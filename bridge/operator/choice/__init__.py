"""Chooses the kernel of a call among the registered ones, and explains the choice."""
