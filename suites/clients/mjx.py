"""MuJoCo's simulator in JAX (MJX) with its Warp backend: bodies in contact. Its own tests are not in its package."""

from __future__ import annotations

from pathlib import Path

from suites.clients.client import Client, Edit

CLIENT = Client(
    requirements=("mujoco==3.17.0", "mujoco-mjx==3.17.0", "warp-lang==1.19.0"),
    edits=(
        Edit(
            "mujoco.mjx.warp.ffi",
            r"my_callable = wp\.jax_callable\(",
            "import bridge; my_callable = bridge.warp_callable(",
        ),
    ),
    tests=("--assert=plain", str(Path(__file__).with_name("mjx_calls.py"))),
)
