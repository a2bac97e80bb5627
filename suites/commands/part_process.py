"""Runs a part in the process that :func:`suites.commands.part.run_part` starts, and writes its run file to stdout."""

from __future__ import annotations

import gzip
import os
import shutil
import signal
import sys
import tempfile
import threading
from pathlib import Path

from suites.commands.command_line import main
from suites.processes.interruption import INTERRUPTION


def _end_with_the_worker(worker: int, runs: str) -> None:
    os.read(worker, 1)  # nothing is written there: it returns when the worker is killed
    shutil.rmtree(runs, ignore_errors=True)  # a signal may end this process at once
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    INTERRUPTION.install()
    results = os.dup(1)
    os.dup2(2, 1)  # what the command prints is no result
    worker = os.dup(0)  # pytest puts an empty file in the place of 0, and a read that is interrupted reads again
    with tempfile.TemporaryDirectory(prefix="kernel-bridge-", ignore_cleanup_errors=True) as runs:
        threading.Thread(target=_end_with_the_worker, args=(worker, runs), daemon=True).start()
        code = main([*sys.argv[1:], "--runs", runs])
        for file in Path(runs).glob("*.jsonl"):
            with os.fdopen(results, "wb") as out:
                out.write(gzip.compress(file.read_bytes()))
    sys.exit(code)
