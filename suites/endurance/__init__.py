"""Makes millions of calls, hundreds of kernels, and calls from many threads: ``python -m suites.endurance``."""
