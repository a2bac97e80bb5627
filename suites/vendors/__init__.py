"""Calls kernels through the functions that their makers ship, beside the bridge's own."""
