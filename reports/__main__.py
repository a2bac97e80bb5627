"""Runs ``python -m reports``; ``kernel-bridge`` has the same commands."""

import sys

from reports.cli import main

if __name__ == "__main__":
    sys.exit(main())
