"""Runs ``python -m suites.dispatch``, the same as ``kernel-bridge dispatch``."""

import sys

from suites.commands.command_line import main

if __name__ == "__main__":
    sys.exit(main(["dispatch", *sys.argv[1:]]))
