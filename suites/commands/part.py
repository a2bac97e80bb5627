"""Runs one part of a command on a worker of an executor, in a process of its own.

The worker imports this module to find :func:`run_part`, so it imports nothing large.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path


def run_part(words: Sequence[str], folder: str) -> bytes:
    """Returns the compressed run file of a part.

    A kernel that crashes ends only the process of the part. If the worker is killed, that process ends, too.

    Args:
        words: The words after ``kernel-bridge``.
        folder: Where to run it; if this machine has no such folder, it is the current one.

    Raises:
        RuntimeError: The process was killed, or it recorded nothing; the message has the last line that it printed.
    """
    command = [sys.executable, "-P", "-m", "suites.commands.part_process", *words]
    where = folder if Path(folder).is_dir() else None
    with tempfile.TemporaryFile() as said:
        # A session of its own: Ctrl-C reaches only the command of the user, which ends the workers.
        with subprocess.Popen(
            command, cwd=where, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, start_new_session=True
        ) as process:
            assert process.stdout is not None
            data = process.stdout.read()
            process.wait()  # leaving the block would close its input first, which ends it
        said.seek(0)
        lines = [line for line in said.read().decode(errors="replace").split("\n") if line]
    if not data:
        raise RuntimeError(f"its process ended with exit code {process.returncode}: {lines[-1] if lines else ''}")
    return data
