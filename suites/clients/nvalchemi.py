"""nvalchemi-toolkit-ops: functions for molecules, from NVIDIA. It has no tests in its package, so ours call it."""

from __future__ import annotations

from pathlib import Path

from suites.clients.client import Client, Edit

HERE = "nvalchemiops.jax."

CLIENT = Client(
    requirements=("nvalchemi-toolkit-ops==0.5.0", "warp-lang==1.19.0"),
    edits=(
        Edit(f"{HERE}segment_ops", "from warp import jax_callable as (.*)", r"from bridge import warp_callable as \2"),
    ),
    tests=("--assert=plain", str(Path(__file__).with_name("nvalchemi_calls.py"))),
)
