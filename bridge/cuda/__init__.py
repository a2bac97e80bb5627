"""Prepares CUDA code: what it includes, launch shapes, and machine code for the GPUs that are there."""
