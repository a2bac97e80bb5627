"""Gives the primitive of operators its rules: evaluation, lowering, batching, derivatives and partitioning."""
