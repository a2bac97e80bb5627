"""Writers that are killed at random moments, or that find the disk full, lose at most the cell in flight."""

import os
import random
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from reports import load_run
from suites.unit.processes import environment, output

KILLS, FILES = 100, 50
"""The writers that are killed, and the files that they write: each continues the file of the one before it."""

MOST = 60
"""Cells that a writer may write before it waits to be killed."""

WRITER = textwrap.dedent(
    """
    import os, sys, time
    from pathlib import Path
    from reports import RunWriter, load_run
    from suites.unit.reports.builders import make_cell, make_result, make_run
    from suites.unit.reports.test_killed_writers import MOST

    while line := sys.stdin.readline():
        path = Path(line.strip())
        # The child writes; this process, which has no threads, only starts the next one.
        child = os.fork()
        if child == 0:
            with RunWriter(path, make_run()) as writer:
                first = len(load_run(path).records) if path.exists() else 0
                sizes = range(first + 1, first + MOST)
                writer.begin([make_cell(size=size) for size in sizes])
                for size in sizes:
                    writer.append(make_result(make_cell(size=size)))
                    os.write(1, b"%d\\n" % size)
                time.sleep(60)
        os.write(1, b"pid %d\\n" % child)
        os.waitpid(child, 0)
        os.write(1, b"dead\\n")
    """
)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be forked here")
def test_a_hundred_kills_at_random_moments_lose_no_cell_but_the_one_in_flight(tmp_path):
    program = tmp_path / "writer.py"
    program.write_text(WRITER)
    choose = random.Random(os.urandom(8))
    command = [sys.executable, str(program)]
    torn = records = 0
    with subprocess.Popen(
        command, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        for kill in range(KILLS):
            path = tmp_path / f"{kill % FILES}.jsonl"
            server.stdin.write(f"{path}\n")
            writer, lines, least = 0, [], choose.randrange(4)
            while not writer or len(lines) < least:
                word, _, number = server.stdout.readline().partition(" ")
                if word == "pid":
                    writer = int(number)
                else:
                    lines.append(word)
            time.sleep(choose.uniform(0, 0.004))
            os.kill(writer, signal.SIGKILL)
            while (line := server.stdout.readline()) != "dead\n":
                lines.append(line)
            records += len(lines)
            before = load_run(path) if path.exists() else None
            sizes = [record.cell.size for record in before.records] if before else []
            written = int(lines[-1]) if lines else len(sizes)
            # In flight: its line was whole, but the writer was killed before it said so.
            assert sizes == [*range(1, len(sizes) + 1)]
            assert written <= len(sizes) <= written + 1
            assert before is None or [one for one in before.problems if one not in before.damaged[-1:]] == []
            torn += bool(before and before.damaged)
        server.stdin.close()
    print(f"{KILLS} writers were killed: {records} records, {torn} incomplete lines")
    assert records > KILLS


FULL = textwrap.dedent(
    """
    import resource, signal, sys
    from pathlib import Path
    from reports import RunUnwritable, RunWriter
    from suites.unit.reports.builders import make_cell, make_result, make_run

    path = Path(sys.argv[1])
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with RunWriter(path, make_run()) as writer:
        writer.begin([make_cell(size=size) for size in range(1, 6)])
        writer.append(make_result(make_cell(size=1)))
        writer.append(make_result(make_cell(size=2)))
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 100, resource.RLIM_INFINITY))
        for size in (3, 4):
            try:
                writer.append(make_result(make_cell(size=size)))
            except RunUnwritable as error:
                print(error.args[0].rpartition(": ")[2])
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        writer.append(make_result(make_cell(size=5)))
    """
)


def test_a_full_disk_loses_no_earlier_record_and_the_run_goes_on_when_there_is_room(tmp_path):
    """The limit for the size of a file stands for the size of the disk."""
    path, program = tmp_path / "run.jsonl", tmp_path / "full.py"
    program.write_text(FULL)
    assert output(program, path).splitlines() == ["File too large."] * 2
    found = load_run(path)
    assert ([record.cell.size for record in found.records], found.problems) == ([1, 2, 5], [])
